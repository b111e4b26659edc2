"""What messages may carry: policies, where they apply, what findings mean; no message is looked at here."""
