import asyncio
import os

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from placet import PlacetClient
from placet.hook import HumanInTheLoopHook, InterruptionMetadata, SqliteSaver
from placet.hook.frameworks.pydantic_ai import PydanticAIApproval
from placet.hook.reviews import ServerReviews


def scripted(messages, info):
    """Asks for both tools, and then is done."""
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("Anne wins.")])
    return ModelResponse(
        parts=[ToolCallPart("roll_dice", {"sides": 6}, "call_1"), ToolCallPart("player_name", {}, "call_2")]
    )


async def streamed(messages, info):
    yield {0: DeltaToolCall("roll_dice", '{"sides": 6}', tool_call_id="call_1")}


model = FunctionModel(scripted, stream_function=streamed)
rolled: list[int] = []


def roll_dice(sides: int) -> str:
    """Throw a die."""
    rolled.append(sides)
    return str(sides)


def player_name(ctx: RunContext[str]) -> str:
    """Whose turn it is."""
    return ctx.deps


agent = Agent(model, deps_type=str, instructions="You run a dice game.", tools=[roll_dice, player_name])

hook = HumanInTheLoopHook({"roll_dice": "Each throw costs a coin"})
approval = PydanticAIApproval(hook, saver=SqliteSaver("approvals.db"))
agent = Agent(
    model,
    deps_type=str,
    instructions="You run a dice game.",
    tools=[roll_dice, player_name],
    capabilities=[approval],
)


async def play() -> str:
    outcome = await approval.run(agent, "My guess is 4.", thread_id="game 7", deps="Anne")
    while isinstance(outcome, InterruptionMetadata):
        for call in outcome.undecided:
            print(call.id, call.name, call.arguments, call.description)
        answer = outcome.edit_tool("roll_dice", {"sides": 4})
        outcome = await approval.resume(agent, "game 7", answer, deps="Anne")
    return outcome.output


async def watch() -> None:
    async for event in approval.stream(agent, "Again!", thread_id="game 8", deps="Anne"):
        if isinstance(event, InterruptionMetadata):
            print("waiting for", [call.name for call in event.undecided])


assert asyncio.run(play()) == "Anne wins."
assert rolled == [4]
asyncio.run(watch())

server = PlacetClient(os.environ["PLACET_SERVER"], os.environ["PLACET_KEY"])
approval = PydanticAIApproval(
    hook, saver=SqliteSaver("approvals.db"), agent="dice", reviews=ServerReviews(server)
)
agent = Agent(model, deps_type=str, tools=[roll_dice, player_name], capabilities=[approval])


async def ask() -> None:
    outcome = await approval.run(agent, "My guess is 2.", thread_id="game 9", deps="Anne")
    if isinstance(outcome, InterruptionMetadata) and outcome.case:
        print(outcome.case["review_url"])


asyncio.run(ask())
waiting = approval.waiting("game 9")
assert waiting is not None
assert waiting.case is not None
server.cancel(waiting.case["case_id"], reason="The casino is closed")


async def take_up() -> None:
    outcome = await approval.resume(agent, "game 9", deps="Anne")
    print("still waiting" if isinstance(outcome, InterruptionMetadata) else outcome.output)


asyncio.run(take_up())
assert approval.waiting("game 9") is None
assert rolled == [4]
server.close()
