"""A tool call as a coding agent reports it, the decision about it, and what each host provides."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol

from msgspec import Struct

CallKind = Literal["tool", "question", "plan"]
HostSettings = dict[str, Any]
PROBE_TOOL = "PlacetGateProbe"
"""The tool that `placet gate doctor` names. A person is always asked about it, under every policy."""


class FileChange(Struct, frozen=True, kw_only=True):
    """What a call changes in one file."""

    path: str
    before: str
    after: str


class HostCall(Struct, frozen=True, kw_only=True):
    """One tool call of a coding agent, with the members that a policy and a reviewer need."""

    host: str
    """The name of the coding agent, as people read it."""
    event: str
    """The hook event: what the host asks for."""
    tool: str
    arguments: dict[str, Any]
    kind: CallKind = "tool"
    session: str = ""
    folder: str = ""
    """The working directory of the agent."""
    mode: str = ""
    """The permission mode of the host, in its own words."""
    call_id: str = ""
    transcript: str = ""
    """The file to which the host writes what happens in the session."""
    agents: tuple[str, ...] = ()
    """The agent and its subagents, outermost first."""
    command: str | None = None
    """The shell command, if the tool runs one."""
    paths: tuple[str, ...] = ()
    """The files that the arguments name, by `list_paths`."""
    texts: tuple[str, ...] = ()
    """The other texts in the arguments of a tool that the gate does not know: they may be paths too."""
    is_clear: bool = True
    """Whether the command and the paths say all that the call does. If not, no rule about them allows it."""
    changes: tuple[FileChange, ...] = ()
    """What the call changes, if the host says so."""
    diff: str = ""
    """The same as a unified diff, if the host sends one."""
    editable: Mapping[str, Any] | None = None
    """The JSON Schema of the arguments, if a reviewer may change them."""
    is_prompted: bool = False
    """Whether the host itself would ask a person now."""


class HostDecision(Struct, frozen=True, kw_only=True):
    """What the host is told about a call. Without a decision, the host goes on as if it had no hook."""

    verdict: Literal["allow", "deny"]
    message: str = ""
    arguments: dict[str, Any] | None = None
    """The arguments to use instead of those of the call."""


class HookEntry(Struct, frozen=True, kw_only=True):
    """One hook of ours in the settings of a host."""

    event: str
    command: str
    timeout_s: float | None
    fails_open: bool = False
    """Whether the settings let a call run if the hook fails."""


class UnreadableCall(ValueError):
    """What the host sent is not a call of this event. The message says why."""


class CallConverter(Protocol):
    """Converts the JSON of a coding agent. Pure."""

    name: str
    """The word on the command line."""
    title: str
    events: tuple[str, ...]

    def read_call(self, event: str, content: bytes) -> HostCall:
        """Return the call that the host reports; raise UnreadableCall."""
        ...

    def change_arguments(self, call: HostCall, arguments: dict[str, Any]) -> HostCall:
        """Return the same call with other arguments."""
        ...

    def format_decision(self, event: str, decision: HostDecision | None, call: HostCall | None) -> str:
        """Return what the hook prints; an empty text means no decision."""
        ...

    def is_settled(self, call: HostCall, before: Sequence[str], after: Sequence[str]) -> bool:
        """Return whether the call has ended, by the transcript's lines before and since the hook began."""
        ...


class CodingAgent(CallConverter, Protocol):
    """A coding agent into whose settings our hooks are written."""

    next_step: str
    """What the user has to do after `install`; may be empty."""
    has_transcripts: bool
    """Whether the transcripts of sessions can be read."""

    def is_denial(self, event: str, output: bytes) -> bool:
        """Return whether the host takes this output of a hook for a denial."""
        ...

    def build_probe(self, event: str, folder: str) -> dict[str, Any]:
        """Return what the host would send to the hook about a call of PROBE_TOOL."""
        ...

    def find_settings_file(self, home: PurePosixPath, environ: Mapping[str, str]) -> PurePosixPath:
        """Return the file of the user's settings."""
        ...

    def parse_settings(self, text: str) -> HostSettings:
        """Return the settings in a file; raise ValueError if they cannot be changed safely."""
        ...

    def format_settings(self, settings: HostSettings, before: str) -> str | None:
        """Return the text of the settings, laid out as before; None if the file is not needed any more."""
        ...

    def add_hooks(self, settings: HostSettings, commands: Mapping[str, str], timeout_s: int) -> HostSettings:
        """Return the settings with our hooks, one command for each event; earlier ones are replaced."""
        ...

    def remove_hooks(self, settings: HostSettings) -> HostSettings:
        """Return the settings without our hooks."""
        ...

    def find_hooks(self, settings: HostSettings) -> list[HookEntry]:
        """Return our hooks in the settings."""
        ...

    def find_problems(self, settings: HostSettings) -> list[str]:
        """Return what in the settings keeps our hooks from running."""
        ...

    def read_transcript(self, lines: Iterator[str]) -> Iterator[HostCall]:
        """Yield the calls in the transcript of a session."""
        ...


def deny(message: str) -> HostDecision:
    """Return a denial with this message for the agent."""
    return HostDecision(verdict="deny", message=message)
