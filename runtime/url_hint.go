package runtime

import (
	"net"
	"strconv"
	"strings"
)

// serverMeant returns the URL that somebody meant who wrote an address, as localhost:6379 or valkey:6379/2, instead of a URL.
// Passwords are left out.
func serverMeant(raw string) (url string, ok bool) {
	if strings.Contains(raw, "://") {
		return "", false
	}
	scheme, rest := "valkey", strings.TrimPrefix(raw, "//")
	for _, name := range []string{"redis", "rediss", "valkey", "valkeys"} {
		if after, found := strings.CutPrefix(rest, name+":"); found && areAddresses(addressesOf(after)) {
			scheme, rest = name, after // such as redis:localhost:6379
		}
	}
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = "user:password@", rest[at+1:]
	}
	addresses := addressesOf(rest)
	if !areAddresses(addresses) {
		return "", false
	}
	if len(addresses) > 1 {
		scheme += "+cluster"
	}
	return scheme + "://" + user + rest, true
}

// addressesOf are the parts of a text where a URL has its hosts.
func addressesOf(text string) []string {
	text = text[strings.LastIndexByte(text, '@')+1:]
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		text = text[:end]
	}
	return strings.Split(text, ",")
}

func areAddresses(list []string) bool {
	for _, address := range list {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || strings.ContainsAny(host, " \t\\") {
			return false
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return true
}
