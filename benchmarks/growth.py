"""What becomes of dtq as it holds more: `make bench-growth`, about seven minutes and a gigabyte of memory.

`--tasks` is how many wait, or are delayed; of dead letters there are a tenth. Each time the same drain is measured with
little around and with much.
"""

from benchmarks import cluster, crowds, leftovers, run, takeover

PARTS = {
    "backlog": crowds.backlog,
    "queues": crowds.queues,
    "delayed": crowds.delayed,
    "dead": crowds.dead,
    "promotion": takeover.promotion,
    "reclaim": takeover.reclaim,
    "cluster": cluster.cluster,
    "back": leftovers.back,
}

if __name__ == "__main__":
    run.main(
        "growth", __doc__, PARTS, tasks=1_000_000, full="10,000,000 tasks in the part “back”, which take half an hour"
    )
