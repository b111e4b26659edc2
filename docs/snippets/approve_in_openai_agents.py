import asyncio
import os

from agents import Agent, RunConfig, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, SqliteSaver
from placet.hook.frameworks.openai_agents import OpenAIAgentsApproval
from placet.hook.reviews import ServerReviews

ASKS = [function_call("get_weather", {"city": "Paris"}, call_id="call_1")]
ENDS = [assistant_message("It is sunny.")]
model = ScriptedModel([ASKS, ENDS, ASKS, ASKS, ENDS])
quiet = RunConfig(tracing_disabled=True)
asked: list[str] = []


@function_tool
def get_weather(city: str) -> str:
    """What the weather is like in a city."""
    asked.append(city)
    return f"It is sunny in {city}."


agent = Agent(name="Weather", instructions="Be short.", model=model, tools=[get_weather])

hook = HumanInTheLoopHook({"get_weather": "Each request is billed"})
approval = OpenAIAgentsApproval(hook, saver=SqliteSaver("approvals.db"))
agent = Agent(name="Weather", instructions="Be short.", model=model, tools=approval.gate_tools([get_weather]))


async def ask_for_paris() -> str:
    outcome = await approval.run(agent, "How is Paris?", thread_id="user 7", run_config=quiet)
    while isinstance(outcome, InterruptionMetadata):
        for call in outcome.undecided:
            print(call.id, call.name, call.arguments, call.description)
        answer = outcome.edit_tool("get_weather", {"city": "Lyon"})
        outcome = await approval.resume(agent, "user 7", answer, run_config=quiet)
    return outcome.final_output


async def watch() -> None:
    async for event in approval.stream(agent, "Again!", thread_id="user 8", run_config=quiet):
        if isinstance(event, InterruptionMetadata):
            print("waiting for", [call.name for call in event.undecided])


assert asyncio.run(ask_for_paris()) == "It is sunny."
assert asked == ["Lyon"]
asyncio.run(watch())

server = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
approval = OpenAIAgentsApproval(
    hook, saver=SqliteSaver("approvals.db"), agent="weather", reviews=ServerReviews(server)
)
agent = Agent(name="Weather", model=model, tools=approval.gate_tools([get_weather]))


async def ask() -> None:
    outcome = await approval.run(agent, "How is Paris?", thread_id="user 9", run_config=quiet)
    if isinstance(outcome, InterruptionMetadata) and outcome.case:
        print(outcome.case["review_url"])


asyncio.run(ask())
waiting = approval.waiting("user 9")
assert waiting is not None
assert waiting.case is not None
server.cancel(waiting.case["case_id"], reason="The budget is spent")


async def take_up() -> None:
    outcome = await approval.resume(agent, "user 9", run_config=quiet)
    print("still waiting" if isinstance(outcome, InterruptionMetadata) else outcome.final_output)


asyncio.run(take_up())
assert approval.waiting("user 9") is None
assert asked == ["Lyon"]
server.close()
