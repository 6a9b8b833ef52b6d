// Package record has the binary form of the engine's files: records with checksums, each of which holds the commands of
// one unit. It does not interpret commands.
package record
