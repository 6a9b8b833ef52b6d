package runtime

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// errURL begins the errors about an engine URL that cannot be read.
var errURL = invalid("engine URL")

// target is where an engine URL leads.
type target struct {
	text     string // without password
	embedded bool
	contract bool // only the functions of the contract
	dir      string
	fsync    embedded.Fsync
	option   rueidis.ClientOption
}

// String is the URL without its password.
func (t target) String() string { return t.text }

func parseURL(raw string) (target, error) {
	if raw == "" || raw == "embedded" || strings.HasPrefix(raw, "embedded:") {
		return parseEmbedded(raw)
	}
	if meant, ok := serverMeant(raw); ok {
		return target{}, fmt.Errorf("%w: it has no scheme: did you mean %s?", errURL, meant)
	}
	first, hosts := cutHosts(raw)
	u, err := url.Parse(first)
	if err != nil {
		return target{}, fmt.Errorf("%w: %s", errURL, redactedParseError(err))
	}
	u.Host = hosts
	if u.Scheme == "" {
		return target{}, fmt.Errorf("%w: it has no scheme: a server is valkey://host:6379, a directory is embedded:%s", errURL, raw)
	}
	base, topology, _ := strings.Cut(u.Scheme, "+")
	switch base {
	case "redis", "rediss", "valkey", "valkeys":
	default:
		return target{}, fmt.Errorf("%w: scheme %q: must be embedded, redis, rediss, valkey or valkeys, the last four "+
			"also with +cluster or +sentinel", errURL, u.Scheme)
	}
	if u.Host == "" {
		return target{}, fmt.Errorf("%w: no host: it must have the form %s://host:port", errURL, u.Scheme)
	}
	t := target{text: u.Redacted()}
	if err := checkServerOptions(u); err != nil {
		return target{}, err
	}
	if t.contract, err = takeContract(u); err != nil {
		return target{}, err
	}
	switch topology {
	case "":
		t.option, err = serverOption(u, base, nil)
		t.option.ForceSingleClient = true
	case "cluster":
		t.option, err = serverOption(u, base, nil)
		t.option.ShuffleInit = true
	case "sentinel":
		t.option, err = sentinelOption(u, base)
	default:
		return target{}, fmt.Errorf("%w: scheme %q: after the + must come cluster or sentinel", errURL, u.Scheme)
	}
	if err != nil {
		return target{}, err
	}
	t.option.DisableCache = true
	return t, nil
}

// useTLS replaces the TLS configuration of a URL that has one.
func (t *target) useTLS(config *tls.Config) error {
	switch {
	case config == nil:
		return nil
	case t.option.TLSConfig == nil:
		return fmt.Errorf("%w: %s is without TLS, and a TLS configuration is given: the scheme must be rediss or valkeys", errURL, t.text)
	}
	own := config.Clone()
	own.ServerName = cmp.Or(own.ServerName, t.option.TLSConfig.ServerName)
	own.MinVersion = max(own.MinVersion, t.option.TLSConfig.MinVersion)
	t.option.TLSConfig = own
	return nil
}

// contractOption is the option of a URL that asks for contract mode.
const contractOption = "contract"

// serverOptions are what the query of a server's URL may have; rueidis reads all of them but contractOption.
var serverOptions = []string{contractOption, "addr", "client_name", "db", "dial_timeout", "max_retries", "protocol", "skip_verify", "write_timeout"}

func checkServerOptions(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: query: %s", errURL, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(serverOptions, name) {
			return fmt.Errorf("%w: unknown option %q of a server: there are %s", errURL, name, strings.Join(serverOptions, ", "))
		}
	}
	return nil
}

// takeContract reads and removes the option of a URL that asks for contract mode.
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

// cutHosts returns a URL with only the first of its hosts, since package url knows no lists of them, and the list.
func cutHosts(raw string) (first, hosts string) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return raw, ""
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	user := authority[:strings.LastIndexByte(authority, '@')+1]
	hosts = authority[len(user):]
	host, _, _ := strings.Cut(hosts, ",")
	return scheme + "://" + user + host + tail, hosts
}

// redactedParseError leaves the URL out of the text, since it may hold a password.
func redactedParseError(err error) string {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err.Error()
	}
	return err.Error()
}

// serverOption reads user, password and hosts. What rueidis knows to read from the query (such as db or timeouts)
// stays in the URL for it.
func serverOption(u *url.URL, scheme string, drop func(*url.URL)) (rueidis.ClientOption, error) {
	hosts, err := splitHosts(u.Host)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	single := *u
	single.Scheme = scheme
	single.Host = hosts[0]
	if drop != nil {
		drop(&single)
	}
	if single.Path == "/" {
		single.Path = "" // no database is named
	}
	option, err := rueidis.ParseURL(single.String())
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: %s", errURL, redactedParseError(err))
	}
	option.InitAddress = append(hosts[:1:1], append(hosts[1:], option.InitAddress[1:]...)...)
	return option, nil
}

func sentinelOption(u *url.URL, scheme string) (rueidis.ClientOption, error) {
	primary := strings.Trim(u.Path, "/")
	if primary == "" {
		return rueidis.ClientOption{}, fmt.Errorf("%w: a sentinel URL ends in /name-of-the-primary", errURL)
	}
	option, err := serverOption(u, scheme, func(u *url.URL) { u.Path = "" })
	option.Sentinel.MasterSet = primary
	return option, err
}

func splitHosts(list string) ([]string, error) {
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if host == "" || strings.HasPrefix(host, ":") {
			return nil, fmt.Errorf("%w: %q names no host", errURL, list)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// parseEmbedded reads "", "embedded:" and "embedded:DIR", with the options fsync=POLICY and contract=15 after a "?".
func parseEmbedded(raw string) (target, error) {
	t := target{text: "embedded:", embedded: true}
	rest := strings.TrimPrefix(strings.TrimPrefix(raw, "embedded"), ":")
	dir, query, _ := strings.Cut(rest, "?")
	if after, found := strings.CutPrefix(dir, "//"); found {
		if !strings.HasPrefix(after, "/") {
			return target{}, fmt.Errorf("%w: embedded has no host: a directory is embedded:%s", errURL, after)
		}
		dir = after
	}
	t.dir = dir
	t.text += dir
	values, err := url.ParseQuery(query)
	if err != nil {
		return target{}, fmt.Errorf("%w: %s", errURL, err)
	}
	for name, value := range values {
		if name == contractOption {
			if err := checkContractVersion(value[0]); err != nil {
				return target{}, err
			}
			t.contract = true
			continue
		}
		if name != "fsync" {
			return target{}, fmt.Errorf("%w: unknown option %q of embedded: there are fsync and %s", errURL, name, contractOption)
		}
		switch value[0] {
		case "always":
			t.fsync = embedded.FsyncAlways
		case "everysec":
			t.fsync = embedded.FsyncEverySecond
		case "never":
			t.fsync = embedded.FsyncNever
		default:
			return target{}, fmt.Errorf("%w: fsync=%s: must be always, everysec or never", errURL, value[0])
		}
	}
	return t, nil
}
