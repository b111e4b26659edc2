"""Messages that wait for a person: held, shown, released or refused."""
