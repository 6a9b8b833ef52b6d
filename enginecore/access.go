package enginecore

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
)

// ApplicationRules returns the rules of ACL SETUSER that give a user of a server the rights that an application needs:
// for clients, workers, keepers, package admin and the command flowfabric, with the keys and channels of one prefix. It
// may call the library's functions, and not replace them. The rules replace all rights that the user had; its passwords
// and its state, on or off, stay as they are. A prefix has 1 to
// 32 characters of a-z, 0-9 and -; another one is an error.
func ApplicationRules(prefix string) (string, error) {
	if err := keyprefix.Check(prefix); err != nil {
		return "", err
	}
	own := prefix + ":*"
	return "resetkeys ~" + own + " resetchannels &" + own + " -@all " + applicationCommands, nil
}

// DeployerRules returns the rules of a user that may also load and replace the function library. The code of the
// library runs with the rights of its callers, so this user can do whatever all applications of the server can.
func DeployerRules(prefix string) (string, error) {
	rules, err := ApplicationRules(prefix)
	if err != nil {
		return "", err
	}
	return rules + " " + deployerCommands, nil
}

// RightsError lists the rights that the user of a connection lacks on a server. It wraps ErrUnauthorized.
type RightsError struct {
	// Missing are the commands that the user may not run, with the keys and channels that they name.
	Missing []string
	// Rules are ACL rules that give them, such as &ff:*, for ACL SETUSER.
	Rules []string
}

// maxMissingShown bounds the commands in the text of a RightsError.
const maxMissingShown = 4

// Error implements error.
func (e *RightsError) Error() string {
	shown := e.Missing
	more := ""
	if len(shown) > maxMissingShown {
		more = fmt.Sprintf(" and %d more", len(shown)-maxMissingShown)
		shown = shown[:maxMissingShown]
	}
	return fmt.Sprintf("%s: the user lacks rights: it may not run %s%s; add to its ACL: %s",
		ErrUnauthorized, strings.Join(shown, ", "), more, strings.Join(e.Rules, " "))
}

// Unwrap makes errors.Is find ErrUnauthorized.
func (e *RightsError) Unwrap() error { return ErrUnauthorized }
