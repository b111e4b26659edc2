"""`placet gate run`: the hook of a coding agent. On any failure it denies the call.

The hook has its own deadline, below the timeout that `placet gate install` sets in the host. If the process
hangs, the kernel ends it; if it is killed, the shell command that `install` writes prints the denial.
"""

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from placet.cli.gate_host_watch import HostWatch
from placet.cli.gate_options import (
    DEFAULT_WAIT,
    HARD_LIMIT_S,
    GateServer,
    find_server,
    load_policy,
    policy_option,
)
from placet.errors import FollowFailed, PlacetError, StillWaiting, Unavailable
from placet.hook.coding_agents.file_arguments import find_content
from placet.hook.coding_agents.gate_policy import GatePolicy, GateVerdict, evaluate
from placet.hook.coding_agents.host_calls import (
    PROBE_TOOL,
    CallConverter,
    HostCall,
    HostDecision,
    UnreadableCall,
    deny,
)
from placet.hook.coding_agents.registry import CODING_AGENTS, PROXIED_AGENTS, load_call_converter
from placet.protocol.duration import parse_duration

if TYPE_CHECKING:
    from placet.agent import Notice, Outcome
    from placet.hook.coding_agents.gate_questions import CaseAnswer, Draft

MAX_INPUT_BYTES = 16 * 1024 * 1024
MAX_FILE_BYTES = 200_000
MAX_RESPONSE_S = 20.0
WITHDRAW_WITHIN_S = 10.0
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class HookEnded(BaseException):
    """The host ended the hook: the call was decided elsewhere, or the session is over."""


class NotApproved(Exception):
    """There is no approval; the message says why."""


@click.command()
@click.argument("host", type=click.Choice([*CODING_AGENTS, *PROXIED_AGENTS]), metavar="AGENT")
@click.option("--event", required=True, metavar="NAME", help="The hook event of the coding agent.")
@click.option(
    "--wait",
    default=DEFAULT_WAIT,
    show_default=True,
    metavar="DURATION",
    help="How long a person may take. Set it with `placet gate install`, which also sets the host's timeout.",
)
@click.option(
    "--host-process", type=int, metavar="PID", help="The coding agent; the hook ends when this process does."
)
@policy_option
def run(host: str, event: str, wait: str, host_process: int | None, config: Path | None) -> None:
    """Decide about one call of a coding agent: the hook that `placet gate install` sets up.

    Reads the host's JSON from standard input and prints the decision, or nothing if the host should go on as
    usual. The decision comes from the policy, or from a person. On any failure, it is a denial.
    """
    agent = load_call_converter(host)
    if event not in agent.events:
        raise click.UsageError(f"--event: {agent.title} has {', '.join(agent.events)}.")
    lasts_s = parse_duration(wait, "--wait").total_seconds()
    deadline = time.monotonic() + lasts_s
    call: HostCall | None = None
    decision: HostDecision | None
    try:
        _limit_process(lasts_s)
        call = agent.read_call(event, _read_input())
        policy = load_policy(config, os.environ)
        decision, is_asked = _apply_policy(policy, call)
        if is_asked:
            watch = HostWatch(agent, call, host_process)
            watch.start()
            server = find_server(GatePolicy() if call.tool == PROBE_TOOL else policy, os.environ)
            decision = PersonQuestion(call, server, deadline, wait).ask()
            watch.stop()
            decision = _check_changes(agent, policy, call, decision)
            _keep_decision(call, decision)
    except BaseException as error:  # interrupts too: the host always gets an answer
        decision = deny(_explain(error, wait))
    click.echo(agent.format_decision(event, decision, call), nl=False)


def _read_input() -> bytes:
    """Return what the host sends. All of it is read: a host may take a broken pipe for a failed hook."""
    content = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(content) <= MAX_INPUT_BYTES:
        return content
    while sys.stdin.buffer.read(MAX_INPUT_BYTES):
        pass
    raise UnreadableCall(f"The hook's input is larger than {MAX_INPUT_BYTES} bytes.")


def _keep_decision(call: HostCall, decision: HostDecision) -> None:
    from placet.cli.gate_history_file import append_decision

    if call.tool != PROBE_TOOL:
        append_decision(call, decision)


def _limit_process(lasts_s: float) -> None:
    """Let the kernel end a process that hangs, and turn signals of the host into an exception."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, lasts_s + HARD_LIMIT_S)
    for number in ENDING_SIGNALS:
        signal.signal(number, _end_hook)


def _end_hook(number: int, frame: FrameType | None) -> None:
    for each in ENDING_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise HookEnded


def _explain(error: BaseException, wait: str) -> str:
    if isinstance(error, NotApproved):
        return str(error)
    if isinstance(error, StillWaiting):
        return f"Nobody answered within {wait}, so this was not done."
    if isinstance(error, HookEnded):
        return "The gate was ended before a person answered, so this was not done."
    said = error.message if isinstance(error, PlacetError) else str(error) or type(error).__name__
    if isinstance(error, Unavailable | FollowFailed):
        return f"The gate could not ask a person, so this was not done: {said}"
    return f"The gate failed, so this was not done: {said}"


def _apply_policy(policy: GatePolicy, call: HostCall) -> tuple[HostDecision | None, bool]:
    """Return the decision of the policy, or None, and whether a person has to be asked."""
    verdict = evaluate_call(policy, call)
    if verdict.effect == "deny":
        return deny(f"The policy denies this. {verdict.reason}"), False
    if verdict.effect == "allow":
        return HostDecision(verdict="allow", message=verdict.reason), False
    return None, verdict.effect == "ask" or call.is_prompted


def _check_changes(
    agent: CallConverter, policy: GatePolicy, call: HostCall, decision: HostDecision
) -> HostDecision:
    """Return the decision, or a denial if the policy denies the arguments that the person changed."""
    if decision.arguments is not None and call.kind == "tool":
        verdict = evaluate_call(policy, agent.change_arguments(call, decision.arguments))
        if verdict.effect == "deny":
            return deny(f"The policy denies this as the person changed it. {verdict.reason}")
    return decision


def evaluate_call(policy: GatePolicy, call: HostCall) -> GateVerdict:
    """Return what the policy says about a call on this machine."""
    return evaluate(
        policy, call, home=str(Path.home()), find_real_path=os.path.realpath, now=datetime.now(UTC)
    )


class PersonQuestion:
    """Asks a person about one call, and withdraws the question if the answer is not needed any more."""

    def __init__(self, call: HostCall, server: GateServer, deadline: float, wait: str) -> None:
        self._call = call
        self._server = server
        self._deadline = deadline
        self._wait = wait
        self._open_case: str | None = None

    def ask(self) -> HostDecision:
        """Return the decision. Raises NotApproved or another error if there is none."""
        from placet.cli.gate_history_file import read_history
        from placet.hook.coding_agents.gate_history import describe_session
        from placet.hook.coding_agents.gate_questions import CaseSurroundings, build_drafts, decide

        granted = self._use_grant()
        if granted is not None:
            return granted
        around = CaseSurroundings(
            computer=socket.gethostname(),
            current_text=_read_current_text(self._call),
            earlier=describe_session(read_history(), self._call.session),
        )
        try:
            answers = [self._ask_one(draft) for draft in build_drafts(self._call, around)]
        except BaseException as error:
            self._withdraw(error)
            raise
        return decide(self._call, answers)

    def _use_grant(self) -> HostDecision | None:
        """Return an approval if a person has pre-approved this call. A failure covers nothing."""
        from placet.cases.grant import build_grant_agent_name
        from placet.client import PlacetClient

        is_grantable = self._call.kind == "tool" and self._call.command is None
        if not is_grantable or self._call.tool == PROBE_TOOL:
            return None
        with (
            suppress(PlacetError),
            PlacetClient(self._server.url, self._server.key, timeout=self._get_seconds_left()) as client,
        ):
            key = f"gate-{os.urandom(16).hex()}"
            grant = client.use_grant(
                self._call.tool,
                self._call.arguments,
                key=key,
                call_id=self._call.call_id or key,
                agent=build_grant_agent_name(self._call.host, self._call.agents),
                thread_id=self._call.session or None,
            )
            if grant is not None:
                return HostDecision(verdict="allow", message="Covered by a grant of a person.")
        return None

    def _ask_one(self, draft: "Draft") -> "CaseAnswer":
        import httpx

        from placet.agent import Agent
        from placet.cli.client_options import require_secure
        from placet.errors import ServerRefused
        from placet.http.client_operations import OPEN_CASE

        left = self._get_seconds_left()
        body = {**draft, "timeout": f"{max(1, int(left))}s"}
        headers = {"Authorization": f"Bearer {self._server.key}"}
        with httpx.Client(timeout=min(left, MAX_RESPONSE_S)) as http:
            agent = Agent(tell=self._remember, http=http, max_wait=timedelta(seconds=left))
            try:
                outcome = agent.request(
                    OPEN_CASE.method,
                    OPEN_CASE.url(require_secure(self._server.url)),
                    json=body,
                    headers=headers,
                )
            except httpx.HTTPError as error:
                raise Unavailable(f"{self._server.url} cannot be reached: {error}.") from error
        if isinstance(outcome, httpx.Response):
            raise ServerRefused.of(outcome.status_code, _read_object(outcome))
        self._open_case = None
        return self._read_answer(outcome)

    def _read_answer(self, outcome: "Outcome") -> "CaseAnswer":
        from placet.agent import Cancelled, Decided
        from placet.hook.coding_agents.gate_questions import CaseAnswer

        if isinstance(outcome, Cancelled):
            raise NotApproved(
                f"The question was withdrawn, so this was not done. {outcome.reason or ''}".strip()
            )
        if not isinstance(outcome, Decided):
            raise NotApproved(f"Nobody answered within {self._wait}, so this was not done.")
        if outcome.verified is False:
            raise NotApproved("The signature of the answer is invalid, so this was not done.")
        who = outcome.responded_by or {}
        name = who.get("name") or who.get("email")
        return CaseAnswer(
            action=outcome.action,
            is_affirmative=outcome.is_affirmative,
            data=outcome.data,
            reviewer=name if isinstance(name, str) else "",
        )

    def _remember(self, notice: "Notice") -> None:
        if notice.name == "requested":
            self._open_case = notice.case.case_id

    def _withdraw(self, error: BaseException) -> None:
        """Close the question: nobody can approve any more what does not run."""
        from placet.client import PlacetClient

        if self._open_case is None:
            return
        reason = "Answered elsewhere, or the session ended." if isinstance(error, HookEnded) else "Too late."
        with (
            suppress(Exception),
            PlacetClient(self._server.url, self._server.key, timeout=WITHDRAW_WITHIN_S) as client,
        ):
            client.cancel(self._open_case, reason=reason)

    def _get_seconds_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise StillWaiting
        return left


def _read_current_text(call: HostCall) -> str | None:
    """Return the file that a call would replace, or None if there is none that can be compared."""
    if not call.paths or find_content(call.arguments) is None:
        return None
    path = Path(call.paths[0])
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            return path.read_text("utf-8")
    return None


def _read_object(response: object) -> dict[str, object]:
    with suppress(ValueError):
        found = response.json()  # type: ignore[attr-defined]
        if isinstance(found, dict):
            return found
    return {}
