// Package batching sends several calls at once: [Batcher] joins concurrent requests with a common key into one call,
// [SendAll] sends independent calls in one pipeline.
package batching
