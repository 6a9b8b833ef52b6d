// Package command has the commands on data: strings, keys, hashes, sets, lists, sorted sets and streams. A command
// reads its words, works on the key space and returns a reply. Commands that need a connection or the engine itself are
// not here.
package command
