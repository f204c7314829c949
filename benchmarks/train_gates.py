"""Train the gates of DiP-GO on a model; the scores are a JSON file. A killed training goes on where it was.

python benchmarks/train_gates.py fashion-dit --out fashion-dit-gates.json
bigain.prune(bigain.load("fashion-dit"), "dipgo(target=0.2, scores='fashion-dit-gates.json')")
"""

import argparse
from pathlib import Path

import bigain
from bigain.pruning import DipGo
from bigain.pruning.training import GateTrainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a bundled model, a folder or a Hub model ID")
    parser.add_argument("--out", type=Path, required=True, help="the scores; a checkpoint stands beside them")
    parser.add_argument("--num-inference-steps", type=int, default=25)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--weight", type=float, default=0.1, help="of the share of FLOPs kept")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    method = DipGo(0.0, None, args.num_inference_steps, args.iterations, args.batch_size, args.weight)
    trainer = GateTrainer(bigain.load(args.model), method, args.seed, args.out.with_suffix(".pt"))
    trainer.train()
    trainer.scores().save(args.out)


if __name__ == "__main__":
    main()
