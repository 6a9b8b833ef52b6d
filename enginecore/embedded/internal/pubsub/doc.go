// Package pubsub has the subscriptions of connections to channels, patterns and shard channels, and delivers messages
// to them.
package pubsub
