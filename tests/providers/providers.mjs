// Verifies deliveries with the providers' own libraries, of those that publish none in Python.
//
// It runs in the folder into which they were installed. Reads a list of deliveries with our signatures as JSON from stdin, and writes for each whether its library believes our
// signature, and whether it believes it of another body. `--libraries` prints of each its version; none of them signs.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(`${process.cwd()}/`);
require("@shopify/shopify-api/adapters/node");
const { ApiVersion, LogSeverity, shopifyApi } = require("@shopify/shopify-api");

const shopify = (apiSecretKey) =>
  shopifyApi({
    apiKey: "key",
    apiSecretKey,
    apiVersion: Object.values(ApiVersion).at(-1),
    hostName: "hooks.example.com",
    isEmbeddedApp: false,
    logger: { level: LogSeverity.Error },
  });

// What stands beside the signature, and is not signed.
const beside = {
  "X-Shopify-API-Version": "2026-01",
  "X-Shopify-Shop-Domain": "shop.myshopify.com",
  "X-Shopify-Topic": "orders/paid",
  "X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
};

const libraries = {
  "@shopify/shopify-api": async ({ secret, ours }, rawBody) => {
    const rawRequest = { method: "POST", url: "/", headers: { ...beside, ...ours } };
    const { valid } = await shopify(secret).webhooks.validate({ rawBody, rawRequest, rawResponse: {} });
    return valid;
  },
};

const answer = async (delivery) => {
  const believes = (body) => libraries[delivery.library](delivery, body);
  return { theirs: null, believes: await believes(delivery.body), believes_another: await believes(delivery.another) };
};

const version = (name) => JSON.parse(readFileSync(`${process.cwd()}/node_modules/${name}/package.json`, "utf8")).version;

const described = (name) => [name, { version: version(name), signs: false }];

const told = process.argv.includes("--libraries")
  ? Object.fromEntries(Object.keys(libraries).map(described))
  : await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(answer));
process.stdout.write(JSON.stringify(told));
