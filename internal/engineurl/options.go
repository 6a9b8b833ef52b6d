package engineurl

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// contractOption is the option of a URL that requests contract mode.
const contractOption = "contract"

// The options of a URL of sentinels.
const (
	sentinelUser     = "sentinel_username"
	sentinelPassword = "sentinel_password"
	sentinelTLS      = "sentinel_tls"
)

// serverOptions are the parameters that the query of a server's URL may have; rueidis reads the ones without a constant
// here.
var serverOptions = []string{
	contractOption, "client_name", "db", "dial_timeout", "max_retries", "protocol", sentinelPassword, sentinelTLS,
	sentinelUser, "skip_verify", "write_timeout",
}

func checkServerOptions(u *url.URL, base, topology string) error {
	query, err := url.ParseQuery(u.RawQuery)
	secret := strings.Contains(u.RawQuery, sentinelPassword)
	if err != nil && secret {
		err = errors.New("it cannot be read: in a password, & % + and # must be percent-encoded, such as %26 for an &")
	}
	if err != nil {
		return fmt.Errorf("%w: query: %s", errURL, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(serverOptions, name) && secret:
			return fmt.Errorf("%w: an unknown option of a server, which may be a part of the password: there are %s", errURL,
				strings.Join(serverOptions, ", "))
		case !slices.Contains(serverOptions, name):
			return fmt.Errorf("%w: unknown option %q of a server: there are %s", errURL, name,
				strings.Join(serverOptions, ", "))
		case len(query[name]) > 1:
			return fmt.Errorf("%w: %s is given %d times: once is allowed", errURL, name, len(query[name]))
		}
		if rule := optionRule(base, topology, name, query.Get(name)); rule == errDatabase {
			return checkDatabase(query.Get(name))
		} else if rule != "" && name != sentinelPassword {
			return fmt.Errorf("%w: %s=%s: it %s", errURL, name, query.Get(name), rule)
		} else if rule != "" {
			return fmt.Errorf("%w: %s: it %s", errURL, name, rule)
		}
	}
	if query.Get(sentinelUser) != "" && !query.Has(sentinelPassword) {
		return fmt.Errorf("%w: %s without %s", errURL, sentinelUser, sentinelPassword)
	}
	return checkOneDatabase(u, query, topology)
}

// checkOneDatabase checks that a URL names one database at most, and none in a cluster.
func checkOneDatabase(u *url.URL, query url.Values, topology string) error {
	inPath := strings.TrimPrefix(u.Path, "/")
	switch {
	case topology == "cluster" && inPath != "":
		return fmt.Errorf("%w: /%s: a cluster has one database, so that its URL ends after the hosts", errURL, inPath)
	case topology == "" && inPath != "" && query.Has("db"):
		return fmt.Errorf("%w: database /%s and db=%s: it must be named once", errURL, inPath, query.Get("db"))
	}
	return nil
}

// errDatabase in place of a rule means that checkDatabase has the rule.
const errDatabase = "database"

// optionRule returns the rule that the value of an option breaks, or ""; rueidis passes over some that it does not
// know.
func optionRule(base, topology, name, value string) string {
	secure := base == "rediss" || base == "valkeys"
	switch name {
	case "db":
		if checkDatabase(value) != nil {
			return errDatabase
		}
		if topology == "cluster" {
			return "cannot be chosen: a cluster has one database"
		}
	case "dial_timeout", "write_timeout":
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			return "must be a time with its unit, such as 5s"
		}
	case "max_retries":
		if value != "0" {
			return "must be 0, which sends no call again"
		}
	case "protocol":
		if value != "2" && value != "3" {
			return "must be 2 or 3"
		}
	case "skip_verify", sentinelTLS:
		if name == "skip_verify" && !secure {
			return "is for a URL with TLS: the scheme must be rediss or valkeys"
		}
		if _, err := strconv.ParseBool(value); err != nil {
			return "must be true or false"
		}
	}
	if strings.HasPrefix(name, "sentinel_") && topology != "sentinel" {
		return "is for a URL of sentinels: the scheme must be " + base + "+sentinel"
	}
	return ""
}

// checkDatabase checks the number of a database; "" names none.
func checkDatabase(text string) error {
	if _, err := strconv.ParseUint(text, 10, 31); err != nil && text != "" {
		return fmt.Errorf("%w: database %q: it must be a number from 0 on, as in valkey://host:6379/2", errURL, text)
	}
	return nil
}

// takeContract reads and removes the option of a URL that requests contract mode.
func takeContract(u *url.URL) (bool, error) {
	query := u.Query()
	if !query.Has(contractOption) {
		return false, nil
	}
	err := checkContractVersion(query.Get(contractOption))
	query.Del(contractOption)
	u.RawQuery = query.Encode()
	return true, err
}

func checkContractVersion(version string) error {
	if version != enginerpc.ContractVersionNumber {
		return fmt.Errorf("%w: %s=%s: the version of the contract must be %s", errURL, contractOption, version,
			enginerpc.ContractVersionNumber)
	}
	return nil
}
