"""Two hundred patterns such as an operator would write: keys and tokens, personal data, words of the house.

Each is a policy of its own. Those that a reviewer must see are held, the others masked, blocked or noted.
"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

COUNT = 200
LEGS = {"requestFromSource": True, "responseFromSink": True}
SOCIAL_SECURITY = r"\b[0-8]\d{2}-\d{2}-\d{4}\b"

# Beginnings by which a key gives away whose it is, and what follows them.
PREFIXED = {
    "AKIA": "[A-Z2-7]{16}",
    "ASIA": "[A-Z2-7]{16}",
    "AIza": "[A-Za-z0-9_-]{35}",
    "ya29\\.": "[A-Za-z0-9_-]{40,200}",
    "ghp_": "[A-Za-z0-9]{36}",
    "gho_": "[A-Za-z0-9]{36}",
    "ghs_": "[A-Za-z0-9]{36}",
    "github_pat_": "[A-Za-z0-9_]{80,90}",
    "glpat-": "[A-Za-z0-9_-]{20}",
    "xoxb-": "[0-9]{10,13}-[0-9A-Za-z-]{20,60}",
    "xoxp-": "[0-9]{10,13}-[0-9A-Za-z-]{20,60}",
    "xapp-": "[0-9]-[A-Z0-9]{10,13}-[0-9a-z-]{20,90}",
    "sk_live_": "[A-Za-z0-9]{24,99}",
    "rk_live_": "[A-Za-z0-9]{24,99}",
    "whsec_": "[A-Za-z0-9+/=]{32,64}",
    "sk-ant-": "[A-Za-z0-9_-]{32,120}",
    "sk-proj-": "[A-Za-z0-9_-]{32,160}",
    "hf_": "[A-Za-z]{34}",
    "npm_": "[A-Za-z0-9]{36}",
    "pypi-": "[A-Za-z0-9_-]{80,200}",
    "dop_v1_": "[0-9a-f]{64}",
    "SG\\.": "[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}",
    "shpat_": "[0-9a-fA-F]{32}",
    "EAAC": "[A-Za-z0-9]{60,200}",
    "sq0csp-": "[A-Za-z0-9_-]{43}",
    "key-": "[0-9a-f]{32}",
    "hvs\\.": "[A-Za-z0-9_-]{24,120}",
    "lin_api_": "[A-Za-z0-9]{40}",
    "eyJ": "[A-Za-z0-9_-]{15,400}\\.eyJ[A-Za-z0-9_-]{15,800}\\.[A-Za-z0-9_-]{10,200}",
    "placet_": "[A-Za-z0-9_-]{43}",
}
# Services whose keys can only be told by what stands before them.
NAMED = (
    "adyen airtable algolia amplitude asana atlassian auth0 bitbucket braintree buildkite cloudflare "
    "confluent contentful coveralls databricks datadog discord docusign dropbox dynatrace elastic fastly "
    "figma firebase freshdesk grafana heroku hubspot intercom jenkins jfrog klarna launchdarkly linear "
    "looker mailchimp mailgun mapbox mollie mongodb netlify newrelic notion okta pagerduty paypal pinecone "
    "plaid postmark rapidapi redis rollbar salesforce segment sendgrid sentry shopify snowflake sonar "
    "splunk square stripe sumologic supabase tableau telegram terraform twilio twitch typeform vercel "
    "xero zendesk zoho zoom"
)
SECRET_WORDS = ("key", "token", "secret", "password")
LENGTHS = ("[A-Za-z0-9]{32}", "[0-9a-f]{40}", "[A-Za-z0-9_-]{22,64}", "[A-Za-z0-9+/]{40}={0,2}")
PERSONAL = {
    "us-social-security": SOCIAL_SECURITY,
    "us-taxpayer": r"\b9\d{2}-[7-9]\d-\d{4}\b",
    "us-phone": r"\(\d{3}\) \d{3}-\d{4}\b",
    "uk-insurance": r"\b[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b",
    "uk-postcode-and-house": r"\b\d{1,3} [A-Z][a-z]{1,9} (?:Road|Street), [A-Z]{1,2}\d{1,2} \d[A-Z]{2}\b",
    "fr-social-security": r"\b[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}\b",
    "it-fiscal-code": r"\b[A-Z]{6}\d{2}[A-EHLMPR-T]\d{2}[A-Z]\d{3}[A-Z]\b",
    "es-identity": r"\b\d{8}[A-HJ-NP-TV-Z]\b",
    "pl-identity": r"\bPESEL:? ?\d{11}\b",
    "nl-service-number": r"(?i)\bbsn:? ?\d{9}\b",
    "ch-social-security": r"\b756\.\d{4}\.\d{4}\.\d{2}\b",
    "in-aadhaar": r"\b[2-9]\d{3} \d{4} \d{4}\b",
    "br-cpf": r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b",
    "au-tax-file": r"(?i)\btfn:? ?\d{3} ?\d{3} ?\d{3}\b",
    "ca-social-insurance": r"(?i)\bsin:? ?\d{3}[ -]\d{3}[ -]\d{3}\b",
    "card-number": r"\b(?:4\d{3}|5[1-5]\d{2}|6011)[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b",
    "card-american-express": r"\b3[47]\d{2}[ -]?\d{6}[ -]?\d{5}\b",
    "card-security-code": r"(?i)\bcv[vc]2?:? ?\d{3,4}\b",
    "passport": r"(?i)\bpassport (?:no\.?|number):? ?[A-Z0-9]{8,9}\b",
    "driving-licence": r"(?i)\bdriv(?:ing|er'?s) licen[cs]e:? ?[A-Z0-9]{8,16}\b",
    "date-of-birth": r"(?i)\b(?:born|date of birth|dob):? ?\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b",
    "private-mail": r"(?i)\b[\w.+-]{1,64}@(?:gmail|outlook|hotmail|yahoo|proton|icloud)\.[a-z]{2,6}\b",
    "ip-address-inside": r"\b(?:10|192\.168)(?:\.\d{1,3}){2,3}\b",
    "mac-address": r"(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b",
    "bitcoin-address": r"\bbc1[02-9ac-hj-np-z]{39,59}\b",
    "ethereum-address": r"\b0x[0-9a-fA-F]{40}\b",
    "private-key": r"-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----",
    "password-in-url": r"\b[a-z][a-z0-9+.-]{1,12}://[^/\s:@]{1,64}:[^/\s:@]{3,64}@",
    "basic-credentials": r"(?i)\bauthorization: basic [A-Za-z0-9+/]{8,200}={0,2}",
    "vehicle-number": r"\b[A-HJ-NPR-Z0-9]{11}\d{6}\b",
}
# Country, and how many digits or letters come after it.
ACCOUNTS = (
    "AT:18 BE:14 BG:18 CH:19 CY:26 CZ:22 DE:20 DK:16 EE:18 ES:22 FI:16 FR:25 GB:20 GR:25 HR:19 HU:26 "
    "IE:20 IT:25 LT:18 LU:18 LV:19 MT:29 NL:16 NO:13 PL:26 PT:23 RO:22 SE:22 SI:17 SK:22"
)
HOUSE_WORDS = (
    "amber basalt cobalt dolomite emerald flint garnet hematite ivory jasper kyanite lapis malachite "
    "nephrite obsidian peridot quartz rhodonite sapphire topaz umber vivianite wolframite xenotime "
    "zircon agate beryl citrine diamond epidote fluorite gypsum halite ilmenite jet kernite limonite"
)
ACTIONS = ("HUMAN_REVIEW_REQUIRED", "MASK", "BLOCK", "WARN", "LOG")


def policies(count: int = COUNT) -> list[dict[str, Any]]:
    """So many policies, as a file of policies has them."""
    found = [
        {
            "name": name,
            "config": {
                "type": "REGEX_DETECTION",
                "enabledLegs": LEGS,
                "pattern": {"regex": pattern, "action": action},
            },
        }
        for (name, pattern), action in zip(_named_patterns(), cycle(ACTIONS), strict=False)
    ]
    assert len(found) >= count
    return found[:count]


def _named_patterns() -> Iterator[tuple[str, str]]:
    yield from PERSONAL.items()
    for prefix, rest in PREFIXED.items():
        yield f"key {prefix}", rf"\b{prefix}{rest}\b"
    for country in ACCOUNTS.split():
        code, digits = country.split(":")
        yield f"account {code}", rf"\b{code}\d{{2}} ?(?:[A-Z0-9]{{4}} ?){{{int(digits) // 4}}}"
    for name, word, length in zip(NAMED.split(), cycle(SECRET_WORDS), cycle(LENGTHS), strict=False):
        yield f"{name} {word}", rf"(?i)\b{name}[ ._-]{{0,3}}(?:api[ ._-]?)?{word}[\"' :=]{{1,5}}{length}\b"
    for word in HOUSE_WORDS.split():
        yield f"project {word}", rf"(?i)\bproject[ -]{word}\b"
