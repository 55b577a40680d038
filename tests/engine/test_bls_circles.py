"""BLS calls that wait for themselves, in real stubs (rule 4.4.1): they are refused, with the chain of models, only
where it is certain that they do.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from tests.serving import DECOUPLED, SCRIPTED, Lab, Script, config, eventually, in_threads

#: Runs the text it is sent as its `execute`; `call(model, text)` runs it in another model and
#: returns its value.
CALLER = (
    SCRIPTED
    + '''

import asyncio, json


def request_to(model, code, **more):
    inputs = [pb_utils.Tensor("CODE", np.array([code.encode()], dtype=object))]
    return pb_utils.InferenceRequest(model_name=model, requested_output_names=[], inputs=inputs, **more)


def value_of(response):
    """Return the value of a response's TEXT, or its error."""
    if response.has_error():
        return "!" + response.error().message()
    tensors = response.output_tensors()
    return json.loads(tensors[0].as_numpy()[0].decode()) if tensors else None


def call(model, code="return say(7)"):
    return value_of(request_to(model, code).exec())


def calls(model, code):
    return [value_of(response) for response in request_to(model, code).exec(decoupled=True)]


def saying(value):
    return answer(TEXT=np.array([json.dumps(value)], dtype=object))


def say(value):
    return [saying(value)]
'''
)
#: The same for a model whose `execute` is a coroutine.
ASYNC_CALLER = (
    CALLER.replace("def execute(", "async def execute(")
    .replace('exec("def script', 'exec("async def script')
    .replace('return scope["script"](', 'return await scope["script"](')
)
CONFIG = config("CODE STRING 1", "TEXT STRING -1; OUT FP32 -1")
SEVEN = "'return say(7)'"


def circle(*models: str) -> str:
    """Return the error of a call to the first of `models` that would wait for itself."""
    return (
        f"!Model {models[0]} - Error when running inference: The request would wait for itself: {' -> '.join(models)}. "
        f"Every instance of '{models[0]}' that could take it waits, directly or not, for its answer. Configure more "
        "instances, or call the model where nothing waits for the answer."
    )


@pytest.fixture(scope="module")
def models(lab: Lab) -> Lab:
    two = CONFIG.replace("count: 1", "count: 2")
    for name, source, text in (
        ("a", CALLER, CONFIG),
        ("b", CALLER, CONFIG),
        ("c", CALLER, CONFIG),
        ("two", CALLER, two),
        ("flow", CALLER, CONFIG + DECOUPLED),
        ("sync", ASYNC_CALLER, CONFIG),
        ("async_flow", ASYNC_CALLER, CONFIG + DECOUPLED),
    ):
        lab.load(name, source, text)
    return lab


def run(models: Lab, name: str, code: str, /, **names: str) -> Any:
    """Return the answer of a model to `code`, in which each `$name$` is replaced by the literal of another piece of
    code.
    """
    for key, inner in names.items():
        code = code.replace(f"${key}$", repr(textwrap.dedent(inner).strip()))
    response = next(Script(models.server.model(name)).infer(code))
    return json.loads(response.outputs["TEXT"].numpy()[0])


def test_a_call_to_oneself_is_refused_and_the_model_goes_on(models: Lab) -> None:
    assert run(models, "a", f"return say(call('a', {SEVEN}))") == circle("a", "a")
    assert run(models, "a", f"return say([call('a', {SEVEN}), call('b', {SEVEN})])") == [circle("a", "a"), 7]
    assert run(models, "a", "return say(1)") == 1


def test_a_call_back_is_refused_where_it_happens(models: Lab) -> None:
    back = f"return say(call('a', {SEVEN}))"
    assert run(models, "a", "return say(['from b', call('b', $back$)])", back=back) == ["from b", circle("a", "b", "a")]


def test_a_longer_circle(models: Lab) -> None:
    to_a = f"return say(call('a', {SEVEN}))"
    to_c = "return say(call('c', $to_a$))".replace("$to_a$", repr(to_a))
    assert run(models, "a", "return say(call('b', $to_c$))", to_c=to_c) == circle("a", "b", "c", "a")


def test_a_circle_that_does_not_lead_through_the_first_model(models: Lab) -> None:
    to_b = f"return say(call('b', {SEVEN}))"
    to_c = "return say(call('c', $to_b$))".replace("$to_b$", repr(to_b))
    assert run(models, "a", "return say(call('b', $to_c$))", to_c=to_c) == circle("b", "c", "b")


def test_a_second_instance_takes_the_call(models: Lab) -> None:
    assert run(models, "two", f"return say(call('two', {SEVEN}))") == 7
    # the third of three needs an instance that there is not
    inner = f"return say(call('two', {SEVEN}))"
    assert run(models, "two", "return say(call('two', $inner$))", inner=inner) == circle("two", "two")
    back = f"return say(call('a', {SEVEN}))"
    assert run(models, "a", "return say(call('two', $back$))", back=back) == circle("a", "two", "a")


def test_exec_for_a_decoupled_answer_waits_too(models: Lab) -> None:
    assert run(models, "a", f"return say(calls('a', {SEVEN}))") == [circle("a", "a")]


def test_a_decoupled_model_that_calls_back_in_execute(models: Lab) -> None:
    code = f"request.get_response_sender().send(saying(call('a', {SEVEN})), 1)"
    assert run(models, "a", "return say(calls('flow', $code$))", code=code) == [circle("a", "flow", "a")]


def test_a_decoupled_model_that_calls_back_after_its_first_response(models: Lab) -> None:
    code = f"""
    sender = request.get_response_sender()
    sender.send(saying(1))
    sender.send(saying(call('a', {SEVEN})), 1)
    """
    assert run(models, "a", "return say(calls('flow', $code$))", code=code) == [1, circle("a", "flow", "a")]


def test_of_two_that_call_each_other_one_is_refused(models: Lab) -> None:
    ready = [models.repository / "a_is_there", models.repository / "b_is_there"]
    code = """
    open({0!r}, "w").close()
    while not os.path.exists({1!r}):
        time.sleep(0.001)
    return say(call({2!r}, "return say(7)"))
    """
    codes = [code.format(str(ready[n]), str(ready[1 - n]), "ba"[n]) for n in (0, 1)]
    found = in_threads(2, lambda n: run(models, "ab"[n], codes[n]))
    assert sorted(found, key=str) in ([circle("a", "b", "a"), 7], [circle("b", "a", "b"), 7])


# threads and loops between execute and its calls

#: `call_own()` is the call that waits for itself
BETWEEN = {
    "a thread": (
        "got = []\nt = threading.Thread(target=lambda: got.append(call_own()))\nt.start()\nt.join()\nreturn say(got[0])"
    ),
    "a pool": "with futures.ThreadPoolExecutor(2) as pool: return say(pool.submit(call_own).result())",
    "a pool's map": (
        "with futures.ThreadPoolExecutor(2) as pool: return say(list(pool.map(lambda f: f(), [call_own]))[0])"
    ),
    "a loop of its own": (
        "async def body():\n    return value_of(await request_to('a', CODE).async_exec())\n"
        "return say(asyncio.run(body()))"
    ),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_threads_that_execute_waits_for(models: Lab, case: str) -> None:
    own = "import concurrent.futures as futures\ncall_own = lambda call=call: call('a', CODE)\n"
    code = (own + BETWEEN[case]).replace("CODE", SEVEN)
    assert run(models, "a", code) == circle("a", "a")
    back = (own + BETWEEN[case]).replace("CODE", SEVEN)
    assert run(models, "b", "return say(call('a', $back$))", back=back) == circle("a", "a")


def test_a_thread_that_calls_back(models: Lab) -> None:
    back = f"got = []\nt = threading.Thread(target=lambda call=call: got.append(call('a', {SEVEN})))\n"
    back += "t.start()\nt.join()\nreturn say(got[0])"
    assert run(models, "a", "return say(call('b', $back$))", back=back) == circle("a", "b", "a")


def test_two_calls_of_a_pool_to_ones_own_model(models: Lab) -> None:
    code = f"""
    import concurrent.futures as futures
    with futures.ThreadPoolExecutor(4) as pool:
        return say(list(pool.map(lambda name, call=call: call(name, {SEVEN}), ['a', 'b', 'a'])))
    """
    assert run(models, "a", code) == [circle("a", "a"), 7, circle("a", "a")]


def test_a_coroutine_that_blocks_its_loop(models: Lab) -> None:
    assert run(models, "sync", f"return say(call('sync', {SEVEN}))") == circle("sync", "sync")


def test_what_a_thread_could_still_answer_is_refused_after_the_watchdogs_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """`flow` has a thread of its own, which could answer in place of its `execute`, but does not."""
    lab = Lab(tmp_path_factory.mktemp("patience"), watchdog_seconds=0.3)
    lab.load("a", CALLER, CONFIG)
    lab.load("flow", CALLER, CONFIG + DECOUPLED)
    code = f"""
    import concurrent.futures as futures
    self.pool = futures.ThreadPoolExecutor(1)
    self.pool.submit(int).result()
    request.get_response_sender().send(saying(call('a', {SEVEN})), 1)
    """
    assert run(lab, "a", "return say(calls('flow', $code$))", code=code) == [circle("a", "flow", "a")]
    lab.server.stop()


# what does not wait is not refused


def test_a_thread_may_call_what_is_free_after_execute(models: Lab) -> None:
    later = f"self.kept['t'] = t = threading.Thread(target=lambda: self.kept.update(got=call('a', {SEVEN})))\nt.start()"
    # the lambda needs names that are gone with the script: it gets them as defaults
    later = later.replace("lambda:", "lambda call=call, self=self:")
    assert run(models, "a", f"{later}\nreturn say(1)") == 1
    assert run(models, "a", "return say(2)") == 2
    eventually(lambda: run(models, "a", "return say(self.kept.get('got'))") == 7)


def test_a_decoupled_model_may_call_itself_from_a_thread(models: Lab) -> None:
    code = """
    if tensor(request, "X") is not None:
        request.get_response_sender().send(saying("inner"), 1)
        return
    def work(sender, call=call, saying=saying):
        sender.send(saying(call("flow", "request.get_response_sender().send(saying(7), 1)")), 1)
    threading.Thread(target=work, args=(request.get_response_sender(),)).start()
    """.replace('call("flow", ', 'calls("flow", ').replace("call=call", "calls=calls")
    assert run(models, "flow", code) == [7]


def test_another_thread_may_answer_while_execute_waits(models: Lab) -> None:
    """`a` waits for `flow`, whose execute waits for `a`: but a thread of `flow` answers, and everything goes on."""
    code = f"""
    def work(sender, saying=saying):
        time.sleep(0.05)
        sender.send(saying("from the thread"), 1)
    threading.Thread(target=work, args=(request.get_response_sender(),)).start()
    self.kept["got"] = call('a', {SEVEN})
    """
    assert run(models, "a", "return say(calls('flow', $code$))", code=code) == ["from the thread"]
    code = "request.get_response_sender().send(saying(self.kept['got']), 1)"
    assert eventually(lambda: run(models, "flow", code)) == 7


# coroutines


def test_a_coroutine_that_awaits_its_own_model(models: Lab) -> None:
    code = f"return say(value_of(await request_to('sync', {SEVEN}).async_exec()))"
    assert run(models, "sync", code) == circle("sync", "sync")


def test_a_coroutine_that_gathers_calls_to_its_own_model(models: Lab) -> None:
    code = f"""
    calls = [request_to('sync', {SEVEN}).async_exec(), request_to('b', {SEVEN}).async_exec()]
    return say([value_of(r) for r in await asyncio.gather(*calls, request_to('sync', {SEVEN}).async_exec())])
    """
    assert run(models, "sync", code) == [circle("sync", "sync"), 7, circle("sync", "sync")]


def test_a_call_back_to_a_coroutine(models: Lab) -> None:
    back = f"return say(call('sync', {SEVEN}))"
    code = f"return say(value_of(await request_to('b', {back!r}).async_exec()))"
    assert run(models, "sync", code) == circle("sync", "b", "sync")


def test_a_call_that_the_coroutine_does_not_await(models: Lab) -> None:
    inner = "self.kept['got'] = 7\nreturn say(7)"
    code = f"""
    asyncio.ensure_future(request_to('sync', {inner!r}).async_exec())
    await asyncio.sleep(0.2)
    return say(self.kept.get('got'))
    """
    assert run(models, "sync", code) is None
    assert eventually(lambda: run(models, "sync", "return say(self.kept.get('got'))")) == 7


def test_decoupled_coroutines_may_await_their_own_model(models: Lab) -> None:
    inner = "request.get_response_sender().send(saying(7), 1)"
    code = f"""
    answers = await request_to('async_flow', {inner!r}).async_exec(decoupled=True)
    request.get_response_sender().send(saying([value_of(r) for r in answers]), 1)
    """.replace("request.get", "requests[0].get")
    inner_call = code.replace("request.get_response_sender().send(saying(7), 1)", inner)
    assert run(models, "async_flow", inner_call) == [7]
