"""Notifications: the server itself sends cases, reminders and warnings to people, and takes their presses."""
