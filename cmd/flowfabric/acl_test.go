package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// The lines are what a server takes, without an engine.
func TestACL(t *testing.T) {
	var out bytes.Buffer
	p := program{stdout: &out, stderr: &out, open: open}
	require.Zero(t, p.run(enginetest.Context(t), []string{"-prefix", "mine", "acl", "app"}))
	require.Zero(t, p.run(enginetest.Context(t), []string{"acl", "-deployer", "dep"}))
	application, err := enginecore.ApplicationRules("mine")
	require.NoError(t, err)
	deployer, err := enginecore.DeployerRules("ff")
	require.NoError(t, err)
	require.Equal(t, []string{"ACL SETUSER app on " + application, "ACL SETUSER dep on " + deployer}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}
