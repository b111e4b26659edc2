"""Tool approval for other agent frameworks: one folder per framework, imported only when it is used."""
