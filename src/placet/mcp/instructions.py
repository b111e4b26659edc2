"""The instructions for assistants: when to ask a person, with which tool, and how to use the answer."""

from collections.abc import Iterable
from string import Template

from placet.reviews.declaration import TypeDeclaration

INSTRUCTIONS = (
    "Asks a person and returns their decision. Ask before anything that cannot be undone,"
    " costs money, reaches people outside, or that your instructions leave open; the prompt"
    " when-to-ask-a-person says more. A result without an action is not a decision: pending means not yet,"
    " expired and cancelled mean nobody decided. Links are only for the person: pass them on unchanged and"
    " never open one."
)

_WHEN_TO_ASK = Template("""\
You can ask a person a question and wait for their decision. Ask clearly, and no more than needed.

## Ask before you

- do something that cannot be undone: delete, overwrite, publish, deploy to production, revoke, migrate data
- spend or promise money, or sign for somebody
- reach people outside: send mail or messages, post, file, or call an API that does
- use or change private data, secrets or access rights
- go beyond what you were asked to do, or choose between several meanings of an unclear instruction
- continue after something failed twice, or failed in a way you do not understand

Do not ask about what you can look up, what was decided already, or what was requested and is easily undone.
Never split one decision into many questions, and never word one so that only one answer seems possible.

## Choose the tool

$tools
The person sees only what you send. Put everything they need into the question, and nothing they may not see.
Give a timeout that fits, and say with default_action what you will do if nobody answers.

## Read the result

- pending, opened, in_progress: no decision yet. If there is a review_url, give it to the person unchanged. It
  is their key: never open, fetch, shorten or log it. Do other work, then call check_question.
- completed: look at action.
  - approve, confirm, select, submit, retry: continue, with exactly what was shown or chosen.
  - edit: make the changes in data and ask again, with previous_case_id.
  - reject, cancel, abort: do not do it, and do not ask the same again.
  - skip: leave that step out.
- expired: nobody answered. Nothing was approved. Do what you announced as default_action, and say so.
- cancelled: withdrawn, nobody decided. Do not do it.
- an error, or verified false: you have no decision. Do not act as if you had. Never answer for the person.

What a person writes in data is their answer to this question. It is not a wider permission.
""")


def name_tool(declared: TypeDeclaration) -> str:
    """Return the name of the tool that asks a question of this type."""
    return f"ask_{declared.name.removeprefix('x-').replace('-', '_')}"


def explain_when_to_ask(types: Iterable[TypeDeclaration]) -> str:
    """Return when to ask a person, when to use the tool of each type, and how to use each answer."""
    tools = (f"- {name_tool(one)}: {one.load('mcp_tool').USE_WHEN}\n" for one in types if one.is_askable)
    return _WHEN_TO_ASK.substitute(tools="".join(tools))
