"""Prints the six likeliest tokens after a prompt for each model file in a folder, as JSON.

The output is llama_cpp.json. Run it with a Python that has the package xllamacpp:

    python llama_cpp.py FOLDER > llama_cpp.json
"""

import json
import pathlib
import subprocess
import sys
import time
import urllib.request

SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.n_ctx, params.n_parallel, params.warmup = 1024, 1, False
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
server = xllamacpp.Server(params)
time.sleep(600)
"""
PROMPT = [3 + index * 37 % 250 for index in range(150)]
LENGTHS = [5, 40, 150]


def likeliest(port, prompt):
    """Returns pairs of a token and its log-probability. Returns None if the likeliest token ends the text."""
    settings = {"prompt": prompt, "n_predict": 1, "n_probs": 6, "temperature": 0, "cache_prompt": False}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/completion",
        json.dumps(settings).encode(),
        {"Content-Type": "application/json"},
    )
    reply = json.load(urllib.request.urlopen(request, timeout=60))
    if "completion_probabilities" not in reply:
        return None
    tokens = reply["completion_probabilities"][0]["top_logprobs"]
    return [[token["id"], round(token["logprob"], 3)] for token in tokens]


def main():
    families = {}
    for port, path in enumerate(sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")), 18700):
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE, path, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                    break
                except OSError:
                    time.sleep(0.1)
            found = {length: likeliest(port, PROMPT[:length]) for length in LENGTHS}
            families[path.stem] = {length: tokens for length, tokens in found.items() if tokens}
        finally:
            server.kill()
    rows = (
        f'  "{name}": {{\n'
        + ",\n".join(f'    "{length}": {json.dumps(tokens)}' for length, tokens in found.items())
        + "\n  }"
        for name, found in families.items()
    )
    print("{\n" + ",\n".join(rows) + "\n}")


main()
