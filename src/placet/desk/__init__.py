"""The application: opens, shows, answers, withdraws and follows up cases. No transport."""
