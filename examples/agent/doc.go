// Command agent answers a question with a language model that calls tools: it searches texts, calculates, and writes a
// note when a person has approved that.
//
// Each turn of the agent is a separate run: a node that calls the model, and a plan with a node for each tool call.
// Tokens are streamed while the model generates them, and counted in a budget that ends the run at its hard limit.
//
// Without -model-url the program serves a small deterministic model itself, so it needs no account and no network.
package main
