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
	"strconv"
	"strings"
	"time"

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
	if strings.TrimSpace(raw) != raw {
		return target{}, fmt.Errorf("%w: it begins or ends with a space or a line break", errURL)
	}
	first, hosts, tail := cutHosts(raw)
	if strings.Contains(tail, "@") {
		return target{}, parseError(raw, nil) // a part of a password may be in what would be a database or an option
	}
	u, err := url.Parse(first)
	if err != nil {
		return target{}, parseError(raw, err)
	}
	u.Host = hosts
	if u.Scheme == "" {
		return target{}, withoutScheme(raw)
	}
	base, topology, _ := strings.Cut(u.Scheme, "+")
	switch base {
	case "redis", "rediss", "valkey", "valkeys":
	default:
		return target{}, fmt.Errorf("%w: scheme %q: must be embedded, redis, rediss, valkey or valkeys, the last four "+
			"also with +cluster or +sentinel", errURL, u.Scheme)
	}
	switch {
	case u.Host == "", u.Opaque != "": // such as valkey:://host
		return target{}, fmt.Errorf("%w: no host: it must have the form %s://host:port", errURL, u.Scheme)
	case u.Fragment != "":
		return target{}, fmt.Errorf("%w: something follows a #: in a user, a password or an option it is written %%23",
			errURL)
	}
	t := target{text: redacted(u)}
	if err := checkServerOptions(u); err != nil {
		return target{}, err
	}
	if t.contract, err = takeContract(u); err != nil {
		return target{}, err
	}
	switch topology {
	case "":
		if strings.Contains(u.Host, ",") {
			return target{}, fmt.Errorf("%w: several hosts, %s: the scheme must be %s+cluster or %s+sentinel", errURL,
				u.Host, base, base)
		}
		if err = checkDatabase(strings.TrimPrefix(u.Path, "/")); err == nil {
			t.option, err = serverOption(u, base, nil)
		}
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
var serverOptions = []string{
	contractOption, "addr", "client_name", "db", "dial_timeout", "max_retries", "protocol", "skip_verify",
	"write_timeout",
}

func checkServerOptions(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: query: %s", errURL, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(serverOptions, name) {
			return fmt.Errorf("%w: unknown option %q of a server: there are %s", errURL, name,
				strings.Join(serverOptions, ", "))
		}
		for _, value := range query[name] {
			if err := checkServerOption(u.Scheme, name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkServerOption checks the value of one option; rueidis passes over some that it does not know.
func checkServerOption(scheme, name, value string) error {
	rule := ""
	switch name {
	case "db":
		return checkDatabase(value)
	case "dial_timeout", "write_timeout":
		if d, err := time.ParseDuration(value); err != nil || d <= 0 {
			rule = "must be a time with its unit, such as 5s"
		}
	case "max_retries":
		if value != "0" {
			rule = "must be 0, which sends no call again"
		}
	case "protocol":
		if value != "2" && value != "3" {
			rule = "must be 2 or 3"
		}
	case "skip_verify":
		if base, _, _ := strings.Cut(scheme, "+"); base != "rediss" && base != "valkeys" {
			rule = "is for a URL with TLS: the scheme must be rediss or valkeys"
		} else if _, err := strconv.ParseBool(value); err != nil {
			rule = "must be true or false"
		}
	}
	if rule == "" {
		return nil
	}
	return fmt.Errorf("%w: %s=%s: it %s", errURL, name, value, rule)
}

// checkDatabase checks the number of a database; "" names none.
func checkDatabase(text string) error {
	if _, err := strconv.ParseUint(text, 10, 31); err != nil && text != "" {
		return fmt.Errorf("%w: database %q: it must be a number from 0 on, as in valkey://host:6379/2", errURL, text)
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

// cutHosts returns a URL with only the first of its hosts, since package url knows no lists of them, the list, and what
// stands behind it.
func cutHosts(raw string) (first, hosts, tail string) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || strings.ContainsAny(scheme, ":/?#@") { // such as redis:/://user:password@host
		return raw, "", ""
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	user := authority[:strings.LastIndexByte(authority, '@')+1]
	hosts = authority[len(user):]
	host, _, _ := strings.Cut(hosts, ",")
	return scheme + "://" + user + host + tail, hosts, tail
}

// redacted is a URL without its password, and without a user that stands alone, which may be meant as the password.
func redacted(u *url.URL) string {
	if u.User != nil {
		if _, has := u.User.Password(); !has {
			hidden := *u
			hidden.User = url.User("xxxxx")
			return hidden.String()
		}
	}
	return u.Redacted()
}

// parseError says why a URL cannot be read. The text of err may hold a part of the password; it is left out for a URL
// with an @.
func parseError(raw string, err error) error {
	if strings.Contains(raw, "@") {
		return fmt.Errorf("%w: it cannot be read: in a user or password, the characters / ? # [ ] @ and %% must be percent-encoded, "+
			"such as %%2F for a /, and a port must be a number", errURL)
	}
	return fmt.Errorf("%w: %s", errURL, redactedParseError(err))
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
		if _, port, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%w: port %q of %s: it must be a number from 1 to 65535", errURL, port, host)
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
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		return target{}, fmt.Errorf("%w: directory %s: a ~ is not replaced here: name the whole path, as in embedded:/home/ann/data", errURL, dir)
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
			return target{}, fmt.Errorf("%w: unknown option %q of embedded: there are fsync and %s", errURL, name,
				contractOption)
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
