"""Tool approval in other people's agents: one small file for each framework, loaded only when it is used."""
