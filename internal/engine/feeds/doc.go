// Package feeds reads the feeds of an engine on behalf of all followers in a session: [Events] follows the events of
// single runs, [Runs] the starts and ends of all runs of a namespace.
package feeds
