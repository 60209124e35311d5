"""`python -m tffapps`: what there is to run."""

from __future__ import annotations

COMMANDS = {
    "plfl": "knee X-rays, few labels: PLFL, CSFL, FSSFL",
    "fnst": "rare classes in other sites' styles: FNST",
    "fedstyle": "one artist, one client: FedStyle",
    "fedtransfer": "micrographs, generators travel: FedTransfer",
    "fedsda": "stains of hospitals aligned: FedSDA",
    "classify": "federated classification of any images",
    "data": "is a folder fit for one of them",
    "site": "take part in a federation across machines",
    "report": "the page of all results",
    "doctor": "is this machine fit to run",
}

if __name__ == "__main__":
    for name, meaning in COMMANDS.items():
        print(f"python -m tffapps.{name:<12} {meaning}")
    print("each with --help; `bash run_all.sh` runs the five systems")
