"""Programs that open links before people do: how they name themselves and what they are in the habit of."""

from msgspec import Struct

CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36"
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Scanner(Struct, frozen=True, kw_only=True):
    """One of them. Some ask for the headers first, some keep cookies, some look no further than one page."""

    name: str
    agent: str
    methods: tuple[str, ...] = ("GET",)
    headers: dict[str, str] = {}
    keeps_cookies: bool = True
    follows_redirects: bool = True
    follows_links: bool = True
    tries_forms: bool = False


SCANNERS = (
    Scanner(
        name="Slack",
        agent="Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
        headers={"range": "bytes=0-32768"},
        keeps_cookies=False,
    ),
    Scanner(name="X", agent="Twitterbot/1.0", keeps_cookies=False),
    Scanner(name="Discord", agent="Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"),
    Scanner(name="WhatsApp", agent="WhatsApp/2.23.20.0 A", headers={"accept-language": "de"}),
    Scanner(name="Telegram", agent="TelegramBot (like TwitterBot)", methods=("GET", "GET")),
    Scanner(
        name="Facebook",
        agent="facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        headers={"range": "bytes=0-524287"},
    ),
    Scanner(
        name="LinkedIn",
        agent="LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
        methods=("HEAD", "GET"),
    ),
    Scanner(
        name="Teams",
        agent="Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 "
        "skype-url-preview@microsoft.com",
    ),
    Scanner(name="Gmail's safety check", agent="Google-Safety", tries_forms=True),
    Scanner(
        name="Outlook Safe Links",
        agent=f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME} Edg/124.0.0.0",
        headers={"accept": HTML},
        tries_forms=True,
    ),
    Scanner(
        name="Proofpoint",
        agent=f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME}",
        methods=("HEAD", "GET", "GET"),
        headers={"accept": HTML},
        tries_forms=True,
    ),
    Scanner(
        name="Mimecast",
        agent=f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {CHROME}",
        headers={"accept": HTML, "via": "1.1 scanner"},
    ),
    Scanner(name="Barracuda", agent="Barracuda Sentinel (EE)", keeps_cookies=False, tries_forms=True),
    Scanner(
        name="Applebot",
        agent="Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
    ),
    Scanner(
        name="iMessage",
        agent="Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) "
        "Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
    ),
    Scanner(
        name="Googlebot",
        agent="Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        headers={"from": "googlebot(at)googlebot.com"},
        tries_forms=True,
    ),
    Scanner(
        name="bingbot",
        agent="Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        keeps_cookies=False,
    ),
    Scanner(
        name="VirusTotal",
        agent="AppEngine-Google; (+http://code.google.com/appengine; appid: s~virustotalcloud)",
        methods=("HEAD", "GET"),
        tries_forms=True,
    ),
    Scanner(name="curl", agent="curl/8.5.0", follows_redirects=False, follows_links=False),
    Scanner(
        name="a monitor",
        agent="uptime/1.0",
        methods=("OPTIONS", "HEAD", "GET"),
        follows_redirects=False,
        tries_forms=True,
    ),
    Scanner(
        name="a browser that prefetches",
        agent=f"Mozilla/5.0 (X11; Linux x86_64) {CHROME}",
        headers={"sec-purpose": "prefetch;prerender", "purpose": "prefetch", "accept": HTML},
    ),
    Scanner(
        name="another browser that prefetches",
        agent="Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
        headers={"x-moz": "prefetch", "sec-fetch-dest": "empty"},
    ),
)
