// Writes golden.json.gz beside each DIRECTORY/*/tokenizer.json that has none:
// what the reference makes of the texts of corpus.json.gz and of random ids.
//
//     npm install tokenizers@0.23.2
//     node golden.mjs DIRECTORY [STRIDE]
//
// With a STRIDE, only each STRIDEth text after the hand-made ones is encoded,
// beginning elsewhere for each tokenizer; null stands for the others.
//
// The package is Hugging Face's own Rust library, taken from the working directory.
import { createHash } from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import zlib from "node:zlib";

const { Tokenizer } = createRequire(path.join(process.cwd(), "x.js"))("tokenizers");
const here = path.dirname(new URL(import.meta.url).pathname);
const corpus = JSON.parse(zlib.gunzipSync(fs.readFileSync(path.join(here, "corpus.json.gz"))));

const stride = Number(process.argv[3] ?? 1);
const handMade = 60;

// A linear congruential generator, so that runs repeat.
let state = 12345n;
function random(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
}

function shorter(ids, limit) {
  const start = random(ids.length);
  return ids.slice(start, start + limit);
}

async function decodings(tokenizer, encoded) {
  const size = tokenizer.getVocabSize(true);
  const lists = [[]];
  for (let i = 0; i < 200; i++) {
    lists.push(Array.from({ length: 1 + random(12) }, () => random(size + 5)));
  }
  // Tokens of single bytes and of characters in part come first in vocabularies.
  for (let i = 0; i < 300; i++) {
    lists.push(Array.from({ length: 1 + random(8) }, () => random(Math.min(size, 400))));
  }
  for (const ids of encoded) {
    if (ids.length > 0) lists.push(shorter(ids, 1 + random(6)));
  }
  const out = [];
  for (const ids of lists) {
    out.push({ ids, text: await tokenizer.decode(ids, false), skipped: await tokenizer.decode(ids, true) });
  }
  return out;
}

async function golden(file, offset) {
  const data = fs.readFileSync(file);
  // As to encode a prompt: nothing is cut off or padded.
  const tokenizer = Tokenizer.fromString(JSON.stringify({ ...JSON.parse(data), truncation: null, padding: null }));
  const encode = async (text, addSpecialTokens) => (await tokenizer.encode(text, null, { addSpecialTokens })).getIds();
  const ids = [];
  for (const [i, text] of corpus.entries()) {
    ids.push(i < handMade || i % stride === offset % stride ? await encode(text, false) : null);
  }
  const special = [];
  for (const text of corpus.slice(0, 10)) special.push(await encode(text, true));
  const sha256 = createHash("sha256").update(data).digest("hex");
  return { sha256, ids, special, decode: await decodings(tokenizer, ids.filter((x) => x).slice(0, 200)) };
}

for (const [i, name] of fs.readdirSync(process.argv[2]).sort().entries()) {
  const file = path.join(process.argv[2], name, "tokenizer.json");
  const out = path.join(process.argv[2], name, "golden.json.gz");
  if (!fs.existsSync(file) || fs.existsSync(out)) continue;
  fs.writeFileSync(out, zlib.gzipSync(JSON.stringify(await golden(file, i)), { level: 9 }));
  console.log(name, "done");
}
