"""The application: opening, showing, answering and following up cases; no transport lives here."""
