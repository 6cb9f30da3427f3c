// BullMQ, in Node: the same verbs and notes as harness.py.
import { appendFileSync, existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The packages are not beside this file but where the runner installed them.
const { Queue, Worker } = createRequire(`${process.cwd()}/`)("bullmq");
const EVERY = 100;
const AT_ONCE = 500;
const SETTINGS = "concurrency 100, results kept, maxRetriesPerRequest null; many: addBulk, 500 a call";
const address = new URL(process.env.BENCH_URL);
const connection = { host: address.hostname, port: Number(address.port), maxRetriesPerRequest: null };
const notes = process.env.BENCH_NOTES;
const note = (line) => appendFileSync(notes, `${line}\n`);
const now = () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));

let number = 0;

async function handle(job) {
  if (job.name === "clock") {
    note(now() - BigInt(job.data.sent));
    return;
  }
  number += 1;
  if (number === 1 || number % EVERY === 0) note(`${number} ${now()}`);
}

async function submit(queue, count, payload) {
  for (let done = 0; done < count; done += 1) await queue.add("noop", { a: 1, b: payload });
}

async function submitMany(queue, count, payload) {
  for (let done = 0; done < count; done += AT_ONCE) {
    const jobs = Array.from({ length: AT_ONCE }, () => ({ name: "noop", data: { a: 1, b: payload } }));
    await queue.addBulk(jobs);
  }
}

async function timed(way, queue, count, size) {
  const payload = "x".repeat(size);
  await submit(queue, 0, payload);
  if (way === submit) await submit(queue, 10, payload);
  const began = performance.now();
  await way(queue, count, payload);
  return { seconds: (performance.now() - began) / 1000 };
}

async function clock(queue, count) {
  const size = () => (existsSync(notes) ? statSync(notes).size : 0);
  for (let done = 0; done < count; done += 1) {
    const before = size();
    await queue.add("clock", { sent: String(now()) });
    for (let looks = 0; size() === before; looks += 1) {
      if (looks > 10000) throw new Error("a task did not start within 10 s");
      await sleep(1);
    }
    await sleep(20);
  }
  return {};
}

const [verb, ...words] = process.argv.slice(2);
if (verb === "work") {
  new Worker("bench", handle, { connection, concurrency: 100 });
} else {
  const queue = new Queue("bench", { connection });
  const { version } = createRequire(`${process.cwd()}/`)("bullmq/package.json");
  const answers = {
    describe: () => ({ version, settings: SETTINGS, kinds: ["async"], bulk: true }),
    submit: () => timed(submit, queue, Number(words[1]), Number(words[2])),
    submit_many: () => timed(submitMany, queue, Number(words[1]), Number(words[2])),
    clock: () => clock(queue, Number(words[0])),
  };
  console.log(JSON.stringify(await answers[verb]()));
  await queue.close();
}
