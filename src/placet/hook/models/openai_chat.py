"""Any endpoint that speaks OpenAI's Chat Completions API, as an agent's model."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from placet.errors import ModelMisbehaved, SettingsError, Unavailable
from placet.hook.checkpoint import Message
from placet.protocol.addresses import is_secure_or_loopback

Schema = dict[str, Any]
TRUNCATED = "(cut off)"
"""Arguments of a call of which only the name was written: they cannot be parsed, so nothing runs."""
LENGTH_LIMIT = "length"


class _ChatEndpoint:
    def __init__(
        self, model: str, *, base_url: str, api_key: str | None = None, timeout: float = 120.0, **options: Any
    ) -> None:
        if not is_secure_or_loopback(base_url):
            raise SettingsError(
                "base_url: must start with https://, or be on loopback, because it is sent the API key."
            )
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = timeout
        self._options = {"model": model, **options}

    def _request(self, messages: Sequence[Message], tools: Sequence[Schema]) -> dict[str, Any]:
        body = {**self._options, "messages": [to_openai_message(message) for message in messages]}
        if tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        return {"url": self._url, "json": body, "headers": self._headers}


class OpenAIChat(_ChatEndpoint):
    """Calls the endpoint synchronously. `options` go into every request: temperature, max_tokens …

    Raises Unavailable if the endpoint cannot be reached or refuses, ModelMisbehaved for an invalid
    response.
    """

    def __call__(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        """Return the next assistant message."""
        try:
            with httpx.Client(timeout=self._timeout) as client:
                return read_completion(client.post(**self._request(messages, tools)))
        except httpx.HTTPError as error:
            raise Unavailable(f"The model cannot be reached: {error}.") from error


class AsyncOpenAIChat(_ChatEndpoint):
    """Async version of OpenAIChat."""

    async def __call__(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        """Return the next assistant message."""
        try:
            async with httpx.AsyncClient(timeout=self._timeout) as client:
                return read_completion(await client.post(**self._request(messages, tools)))
        except httpx.HTTPError as error:
            raise Unavailable(f"The model cannot be reached: {error}.") from error


class StreamingOpenAIChat(_ChatEndpoint):
    """Like OpenAIChat, but yields the reply in pieces, for `stream` and `astream`."""

    def __call__(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Iterator[str | Message]:
        """Yield the texts as they arrive, and last the message."""
        request = self._request(messages, tools)
        request["json"]["stream"] = True
        whole = _StreamedReply()
        try:
            with (
                httpx.Client(timeout=self._timeout) as client,
                client.stream("POST", **request) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    response.read()
                    read_completion(response)
                for line in response.iter_lines():
                    yield from whole.take(line)
        except httpx.HTTPError as error:
            raise Unavailable(f"The model cannot be reached: {error}.") from error
        yield whole.message()


class _StreamedReply:
    """A streamed reply, assembled from its parts."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: list[dict[str, str]] = []
        self._open: dict[int | None, dict[str, str]] = {}
        """The call that the next part with this index continues."""
        self._ended: str | None = None
        """Why the endpoint ended the reply; None while it is streaming."""

    def take(self, line: str) -> Iterator[str]:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            self._ended = self._ended or (data if line.startswith("data:") else None)
            return
        try:
            choices = json.loads(data)["choices"]
            delta = choices[0]["delta"] if choices else {}
            self._ended = (choices[0].get("finish_reason") if choices else None) or self._ended
            for part in delta.get("tool_calls") or ():
                self._extend(part)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelMisbehaved(
                "The model's endpoint sent a part of a stream that cannot be parsed."
            ) from error
        if text := delta.get("content"):
            self._text.append(text)
            yield text

    def message(self) -> Message:
        if self._ended is None:  # the missing part may be another call, or the arguments of this one
            raise Unavailable("The model's endpoint closed the connection before the end of its reply.")
        calls = mark_truncated_call(self._calls, self._ended)
        return {"role": "assistant", "content": "".join(self._text), "tool_calls": calls}

    def _extend(self, part: dict[str, Any]) -> None:
        function = part.get("function") or {}
        call = self._call(part.get("index"), part.get("id") or "")
        if (name := function.get("name") or "") != call[
            "name"
        ]:  # some endpoints repeat the name in every part
            call["name"] += name
        call["arguments"] += function.get("arguments") or ""

    def _call(self, index: int | None, call_id: str) -> dict[str, str]:
        """Return the call of a part.

        A new id starts a new call: some endpoints send no index, or reuse it.
        """
        call = self._open.get(index)
        if call is None or (call["id"] and call_id and call_id != call["id"]):
            call = self._open[index] = {"id": "", "name": "", "arguments": ""}
            self._calls.append(call)
        call["id"] = call["id"] or call_id
        return call


def mark_truncated_call(calls: list[dict[str, Any]], ended: str | None) -> list[dict[str, Any]]:
    """Return the calls; if the reply hit its length limit, mark a last call without arguments."""
    if ended != LENGTH_LIMIT or not calls or calls[-1]["arguments"]:
        return calls
    return [*calls[:-1], {**calls[-1], "arguments": TRUNCATED}]


def to_openai_message(message: Message) -> dict[str, Any]:
    """Return a message in the endpoint's form."""
    calls = message.get("tool_calls")
    if not calls:
        known = ("role", "content", "tool_call_id")
        return {name: message[name] for name in known if name in message}
    functions = [
        {
            "id": call["id"],
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": json.dumps(call["arguments"], ensure_ascii=False),
            },
        }
        for call in calls
    ]
    return {"role": message["role"], "content": message.get("content") or None, "tool_calls": functions}


def read_completion(response: httpx.Response) -> Message:
    """Return the endpoint's response as a message."""
    if response.status_code != httpx.codes.OK:
        raise Unavailable(f"The model's endpoint answered {response.status_code}.")
    try:
        choice = response.json()["choices"][0]
        said = choice["message"]
        calls = [
            {
                "id": call.get("id"),
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in said.get("tool_calls") or ()
        ]
        calls = mark_truncated_call(calls, choice.get("finish_reason"))
        return {"role": "assistant", "content": said.get("content") or "", "tool_calls": calls}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelMisbehaved("The endpoint's answer is not a chat completion.") from error
