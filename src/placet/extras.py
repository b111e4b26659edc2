"""The optional extras of the distribution: what each installs, and which of our modules need it."""

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType

_SERVER = (
    "aiohttp",
    "apsw",
    "babel",
    "httptools",
    "jinja2",
    "markdown_it",
    "prometheus_client",
    "re2",
    "starlette",
    "uvicorn",
    "webauthn",
    "yarl",
)
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "ag-ui": ("ag_ui",),
    "agent-framework": ("agent_framework",),
    "claude-agent-sdk": ("claude_agent_sdk",),
    "comprehend": ("boto3",),
    "crewai": ("crewai",),
    "google-adk": ("google.adk",),
    "grpc": ("a2a", "grpc"),
    "langchain": ("langchain", "langgraph"),
    "llama-index": ("workflows",),
    "mcp": ("apsw", "mcp"),
    "openai-agents": ("agents",),
    "otel": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
    "postgres": ("asyncpg", "psycopg", "psycopg_pool"),
    "presidio": ("presidio_analyzer", "spacy"),
    "pydantic-ai": ("pydantic_ai",),
    "redis": ("redis",),
    "relay": (*_SERVER, "confusable_homoglyphs", "regex"),
    "server": _SERVER,
    "smolagents": ("smolagents",),
    "sqlite": ("apsw",),
    "strands": ("strands",),
    "temporal": ("temporalio",),
    "web-push": (*_SERVER, "py_vapid", "pywebpush"),
}
"""Extra -> packages that it installs and that a module of ours imports."""

NEEDED_BY: Mapping[str, str] = {
    "placet.agent.receiver": "server",
    "placet.bootstrap": "server",
    "placet.channels.slack.socket_mode": "server",
    "placet.cli.local_relay": "relay",
    "placet.cli.policy_file_evaluation": "relay",
    "placet.deliveries": "server",
    "placet.embed": "server",
    "placet.hook.frameworks.ag_ui": "ag-ui",
    "placet.hook.frameworks.agent_framework": "agent-framework",
    "placet.hook.frameworks.claude_agent_sdk": "claude-agent-sdk",
    "placet.hook.frameworks.crewai": "crewai",
    "placet.hook.frameworks.google_adk": "google-adk",
    "placet.hook.frameworks.langchain": "langchain",
    "placet.hook.frameworks.llama_index": "llama-index",
    "placet.hook.frameworks.mcp": "mcp",
    "placet.hook.frameworks.openai_agents": "openai-agents",
    "placet.hook.frameworks.pydantic_ai": "pydantic-ai",
    "placet.hook.frameworks.smolagents": "smolagents",
    "placet.hook.frameworks.strands": "strands",
    "placet.hook.frameworks.temporal": "temporal",
    "placet.hook.models.langchain": "langchain",
    "placet.hook.savers.langgraph": "langchain",
    "placet.hook.savers.local": "sqlite",
    "placet.hook.savers.postgres": "postgres",
    "placet.hook.savers.redis": "redis",
    "placet.hook.savers.sqlite": "sqlite",
    "placet.hook.savers.sqlite_schema": "sqlite",
    "placet.http.response_compression": "server",
    "placet.http.routing": "server",
    "placet.mcp": "mcp",
    "placet.notify.bootstrap": "server",
    "placet.notify.receiving": "server",
    "placet.notify.web_push": "web-push",
    "placet.sqlite_outages": "sqlite",
    "placet.pages": "server",
    "placet.protocol.patterns": "server",
    "placet.relay.a2a.text_folding": "relay",
    "placet.relay.a2a.text_normalization": "relay",
    "placet.relay.detectors": "relay",
    "placet.relay.holds": "relay",
    "placet.relay.inspection": "relay",
    "placet.relay.push": "relay",
    "placet.relay.tasks": "relay",
    "placet.relay.runtime": "relay",
    "placet.relay.transports": "relay",
    "placet.relay.transports.grpc": "grpc",
    "placet.relay.upstream": "relay",
    "placet.relay.bootstrap": "relay",
    "placet.reviews.*.mcp_tool": "mcp",
    "placet.reviews.tool_arguments": "mcp",
    "placet.server": "server",
    "placet.server.tracing": "otel",
    "placet.stores.postgres": "postgres",
    "placet.stores.sql": "server",
    "placet.stores.sqlite": "server",
    "placet.verification.passkeys": "server",
}
"""Module or package of ours -> the extra without which it cannot be imported; `*` is any review type."""

_available: set[str] = set()


def is_available(extra: str) -> bool:
    """Return whether every package of the extra is installed."""
    if extra not in _available and all(map(_is_installed, PACKAGES[extra])):
        _available.add(extra)
    return extra in _available


def require_extra(extra: str, needed_by: str) -> None:
    """Raise MissingExtra, which names `needed_by`, unless the extra is installed."""
    if not is_available(extra):
        from placet.errors import MissingExtra

        raise MissingExtra.of(needed_by, extra)


class ExtraFinder:
    """An import hook that raises MissingExtra for a module of ours whose extra is not installed.

    It finds nothing itself and ignores every module that NEEDED_BY does not list.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Check the extra that the module needs, and leave the search to the other finders."""
        extra = NEEDED_BY.get(name)
        if extra is None and name.startswith("placet.reviews."):
            extra = NEEDED_BY.get(f"placet.reviews.*.{name.rpartition('.')[2]}")
        if extra is not None:
            require_extra(extra, name)


def install_finder() -> None:
    """Put the import hook before all others; again does nothing."""
    if ExtraFinder not in sys.meta_path:
        sys.meta_path.insert(0, ExtraFinder)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a dotted name, a parent is missing
        return False
