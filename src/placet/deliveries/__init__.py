"""How closed cases reach other machines; nothing here decides what is delivered."""
