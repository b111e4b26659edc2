"""What messages may carry: policies, where they apply, what findings mean; nothing here acts or looks."""
