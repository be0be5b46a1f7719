"""Answers of a language model with rewards: learn, save, decide. Usage: answers_with_rewards.py [ANSWERS.jsonl]"""

import sys

import pandas as pd

from boostfeat import BoostReranker, NBest, Reranker


def main(path: str, model: str = "model.json") -> float:
    frame = pd.read_json(path, lines=True)  # columns prompt, answer, logprob, reward: a row an answer
    names = {"group": "prompt", "text": "answer", "features": ["logprob"], "quality": "reward"}
    lists = NBest.from_frame(frame, **names)
    train, test = lists[: len(lists) // 2], lists[len(lists) // 2 :]
    reranker = BoostReranker(recipe="fast").fit(train)
    reranker.model_.save(model)
    decision = Reranker.load(model).decide([("Paris.", {"logprob": -0.3}), ("I do not know.", {"logprob": -0.2})])
    print(f"mean reward {reranker.score(test):.3f}; candidate {decision.index}, ahead by {decision.margin:.2f}")
    return reranker.score(test)


if __name__ == "__main__":
    main(*sys.argv[1:])
