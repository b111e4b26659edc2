"""E-mail: the question and its link, sent over SMTP; answers are given on the page behind the link only."""

from placet.channels.email.channel import EmailChannel, from_environment

__all__ = ["EmailChannel", "from_environment"]
