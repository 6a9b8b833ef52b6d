// Package dump writes values as the commands that rebuild them, for snapshots and DUMP.
package dump
