//go:build !unix

package download

import "errors"

var errUnix = errors.New("servers can be fetched on Debian and Ubuntu only: install them, or name them in " +
	"FLOWFABRIC_REDIS_SERVER and FLOWFABRIC_VALKEY_SERVER")

// Servers fetches the servers that are missing, which this system cannot.
func Servers() error { return errUnix }

// Compiler fetches a C compiler, which this system cannot.
func Compiler() (string, error) { return "", errUnix }

// Browser fetches Chromium, which this system cannot.
func Browser() (string, error) { return "", errUnix }

// PostgreSQL fetches PostgreSQL, which this system cannot.
func PostgreSQL() error { return errUnix }
