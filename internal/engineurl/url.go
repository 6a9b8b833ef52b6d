package engineurl

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
)

// errURL begins the errors about an engine URL that cannot be read.
var errURL = fmt.Errorf("%w: engine URL", engine.ErrInvalid)

// Target is where an engine URL leads.
type Target struct {
	Text     string // without passwords
	Embedded bool
	Contract bool // only the functions of the contract
	Dir      string
	Fsync    embedded.Fsync
	Option   rueidis.ClientOption
	// Sentinel is the login of sentinels that the URL names; nil without one.
	Sentinel *url.Userinfo
}

// String is the URL without its password.
func (t Target) String() string { return t.Text }

// Parse reads an engine URL as Open documents it. The error wraps engine.ErrInvalid and has no password.
func Parse(raw string) (Target, error) {
	if raw == "" || raw == "embedded" || strings.HasPrefix(raw, "embedded:") {
		return parseEmbedded(raw)
	}
	if meant, ok := serverMeant(raw); ok {
		return Target{}, fmt.Errorf("%w: it has no scheme: did you mean %s?", errURL, meant)
	}
	if strings.TrimSpace(raw) != raw {
		return Target{}, fmt.Errorf("%w: it begins or ends with a space or a line break", errURL)
	}
	first, hosts, tail := cutHosts(raw)
	if strings.Contains(tail, "@") {
		return Target{}, parseError(raw, nil) // the supposed database or option may be a part of a password
	}
	u, err := url.Parse(first)
	if err != nil {
		return Target{}, parseError(raw, err)
	}
	u.Host = hosts
	if u.Scheme == "" {
		return Target{}, withoutScheme(raw)
	}
	base, topology, _ := strings.Cut(u.Scheme, "+")
	if u.Scheme == "unix" {
		base, topology = "valkey", "unix"
	}
	switch base {
	case "redis", "rediss", "valkey", "valkeys":
	case "http", "https":
		return Target{}, fmt.Errorf("%w: scheme %q: this is the URL of a server, which the command, package httpclient and "+
			"workers over HTTP use; a Go program connects to the engine of the server: redis, rediss, valkey or valkeys",
			errURL, u.Scheme)
	default:
		return Target{}, fmt.Errorf("%w: scheme %q: must be embedded, redis, rediss, valkey or valkeys, the last four "+
			"also with +cluster or +sentinel, or valkey+unix", errURL, u.Scheme)
	}
	switch {
	case topology == "unix":
		err = checkSocket(u, base)
	case u.Host == "", u.Opaque != "": // such as valkey:://host
		err = fmt.Errorf("%w: no host: it must have the form %s://host:port", errURL, u.Scheme)
	}
	if err == nil && u.Fragment != "" {
		err = fmt.Errorf("%w: something follows a #: in a user, a password or an option it is written %%23", errURL)
	}
	if err != nil {
		return Target{}, err
	}
	if err := checkServerOptions(u, base, topology); err != nil {
		return Target{}, err
	}
	t := Target{Text: redacted(u)}
	if t.Contract, err = takeContract(u); err != nil {
		return Target{}, err
	}
	switch topology {
	case "":
		if strings.Contains(u.Host, ",") {
			return Target{}, fmt.Errorf("%w: several hosts, %s: the scheme must be %s+cluster or %s+sentinel", errURL,
				u.Host, base, base)
		}
		if err = checkDatabase(strings.TrimPrefix(u.Path, "/")); err == nil {
			t.Option, err = serverOption(u, base, nil)
		}
		t.Option.ForceSingleClient = true
	case "unix":
		t.Option, err = socketOption(u)
		t.Option.ForceSingleClient = true
	case "cluster":
		t.Option, err = serverOption(u, base, nil)
		t.Option.ShuffleInit = true
	case "sentinel":
		err = t.readSentinels(u, base)
	default:
		return Target{}, fmt.Errorf("%w: scheme %q: after the + must come cluster or sentinel, or unix for a socket", errURL, u.Scheme)
	}
	if err != nil {
		return Target{}, err
	}
	t.Option.DisableCache = true
	return t, nil
}

// checkSocket checks a URL of a socket.
func checkSocket(u *url.URL, base string) error {
	switch {
	case base == "rediss" || base == "valkeys":
		return fmt.Errorf("%w: scheme %q: there is no TLS over a socket: the scheme must be valkey+unix or redis+unix",
			errURL, u.Scheme)
	case u.Host != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") || strings.HasSuffix(u.Path, "/"):
		return fmt.Errorf("%w: no path of a socket: it must have the form %s:///run/valkey/valkey.sock", errURL, u.Scheme)
	}
	return nil
}

// UseTLS replaces the TLS configurations of a URL that has them. sentinel is for sentinels, and defaults to server.
func (t *Target) UseTLS(server, sentinel *tls.Config) error {
	if server != nil && t.Option.TLSConfig == nil {
		return fmt.Errorf("%w: %s is without TLS, and a TLS configuration is given: the scheme must be rediss or valkeys",
			errURL, t.Text)
	}
	ofSentinel := &t.Option.Sentinel.TLSConfig
	if sentinel != nil && *ofSentinel == nil {
		return fmt.Errorf("%w: %s has no sentinels with TLS, and a TLS configuration of theirs is given: the scheme must be "+
			"rediss+sentinel or valkeys+sentinel, or the URL have %s=true", errURL, t.Text, sentinelTLS)
	}
	if *ofSentinel != nil {
		*ofSentinel = merged(*ofSentinel, cmp.Or(sentinel, server))
	}
	if t.Option.TLSConfig != nil {
		t.Option.TLSConfig = merged(t.Option.TLSConfig, server)
	}
	return nil
}

// merged returns the configuration of a program for a URL, or the configuration of the URL if the program has none.
func merged(ofURL, own *tls.Config) *tls.Config {
	if own == nil {
		return ofURL
	}
	own = own.Clone()
	own.MinVersion = max(own.MinVersion, ofURL.MinVersion)
	return own
}

// Logins returns the credentials of connections: the credentials of the program, which may be nil, replace the
// credentials in the URL.
func (t Target) Logins(server, sentinel transport.Credentials) transport.Logins {
	l := transport.Logins{Server: server, Sentinel: sentinel, Changing: server != nil || sentinel != nil}
	if l.Server == nil && t.Option.Username+t.Option.Password != "" {
		l.Server = transport.Fixed(t.Option.Username, t.Option.Password)
	}
	if l.Sentinel == nil && t.Sentinel != nil {
		password, _ := t.Sentinel.Password()
		l.Sentinel = transport.Fixed(t.Sentinel.Username(), password)
	}
	return l
}

// cutHosts returns a URL with only the first of its hosts, since package url knows no lists of them, the list, and the
// part after it.
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

// redacted is a URL without its passwords, and without a user without one, which may be meant as the password.
func redacted(u *url.URL) string {
	if query := u.Query(); query.Has(sentinelPassword) {
		hidden := *u
		query.Set(sentinelPassword, "xxxxx")
		hidden.RawQuery = query.Encode()
		u = &hidden
	}
	if u.User != nil {
		if _, has := u.User.Password(); !has {
			hidden := *u
			hidden.User = url.User("xxxxx")
			return hidden.String()
		}
	}
	return u.Redacted()
}

// parseError returns an error with the reason why a URL cannot be read. The text of err may hold a part of the
// password; it is left out for a URL with an @.
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
