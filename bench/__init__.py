"""How fast Placet is against a bare app on the same server, and how that changes as cases pile up."""
