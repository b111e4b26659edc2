"""The relay: messages between agents, checked against policies and held for people where those say so."""
