package engineurl

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// serverOption reads user, password and hosts. Parameters of the query that rueidis reads (such as db or timeouts) stay
// in the URL for it.
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
	option.InitAddress = hosts
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // the certificate of each server is checked against its own address
	}
	return option, nil
}

// socketOption reads a URL of a socket.
func socketOption(u *url.URL) (rueidis.ClientOption, error) {
	single := *u
	single.Scheme = "unix"
	option, err := rueidis.ParseURL(single.String())
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: %s", errURL, redactedParseError(err))
	}
	option.DialCtxFn = nil
	return option, nil
}

// readSentinels reads a URL of sentinels. They use TLS as the servers do, unless the URL has an option for that.
func (t *Target) readSentinels(u *url.URL, scheme string) (err error) {
	primary := strings.Trim(u.Path, "/")
	if primary == "" || strings.Contains(primary, "/") {
		return fmt.Errorf("%w: a sentinel URL ends in /name-of-the-primary; a database is db=2", errURL)
	}
	if t.Option, err = serverOption(u, scheme, func(u *url.URL) { u.Path = "" }); err != nil {
		return err
	}
	query := u.Query()
	sentinel := &t.Option.Sentinel
	sentinel.MasterSet, sentinel.ClientName = primary, t.Option.ClientName
	sentinel.TLSConfig = t.Option.TLSConfig
	if query.Has(sentinelTLS) {
		switch secure, _ := strconv.ParseBool(query.Get(sentinelTLS)); {
		case !secure:
			sentinel.TLSConfig = nil
		case sentinel.TLSConfig == nil:
			sentinel.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if query.Has(sentinelPassword) {
		t.Sentinel = url.UserPassword(query.Get(sentinelUser), query.Get(sentinelPassword))
	}
	return nil
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
