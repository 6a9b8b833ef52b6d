package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"
	"unicode"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// aclView is a user's rights as -json shows them.
type aclView struct {
	User  string `json:"user"`
	Rules string `json:"rules"`
}

// aclCommand prints what gives a user its rights. It needs no engine.
func aclCommand(prefix string) command {
	return command{"acl", "USER", "print the ACL SETUSER line of an application, or of a deployer", func(flags *flag.FlagSet) action {
		deployer := flags.Bool("deployer", false, "may load and replace the function library as well")
		rules := func() (string, error) {
			of := enginecore.ApplicationRules
			if *deployer {
				of = enginecore.DeployerRules
			}
			text, err := of(cmp.Or(prefix, enginecore.DefaultPrefix))
			if err != nil {
				return "", fmt.Errorf("%w: %w", errUsage, err)
			}
			return text, nil
		}
		check := func(args []string) error {
			if err := need([]string{"USER"})(args); err != nil {
				return err
			}
			if strings.ContainsFunc(args[0], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) || args[0] == "" {
				return fmt.Errorf("%w: user %q: a name has no spaces", errUsage, args[0])
			}
			_, err := rules()
			return err
		}
		return action{check, func(_ context.Context, _ *session, out *output, args []string) error {
			text, err := rules()
			if err != nil {
				return err
			}
			out.row(aclView{args[0], text}, "ACL SETUSER "+args[0]+" on "+text)
			return nil
		}}
	}}
}

// noEngine is the session of a command that needs none.
func noEngine(context.Context, location) (*session, error) { return &session{close: func() {}}, nil }
