"""Ways to prove who answers: passkeys, codes by e-mail, networks, and World ID."""
