package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

// write fills a release with one file.
func write(content string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "version.txt"), []byte(content), 0o644) }
}

func TestSite_PublishesAndWithdraws(t *testing.T) {
	t.Parallel()
	site := Site(t.TempDir())
	live := func(want string) {
		t.Helper()
		got, err := site.Live()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	live("")
	require.ErrorIs(t, site.switchTo("v1"), os.ErrNotExist)
	require.NoError(t, site.publish("v1", write("1")))
	require.NoError(t, site.switchTo("v1"))
	live("v1")
	require.ErrorContains(t, site.publish("v1", write("again")), "release v1 is live")

	require.NoError(t, site.publish("v2", write("2")))
	live("v1")
	for range 2 { // as after a crash
		require.NoError(t, site.switchTo("v2"))
		live("v2")
	}
	for range 2 {
		back, err := site.withdraw("v2")
		require.NoError(t, err)
		require.Equal(t, "v1", back)
		live("v1")
	}
	require.NoDirExists(t, site.path("releases", "v2"))

	// A release that was never live is removed without a trace, and the withdrawal of the first release leaves nothing.
	require.NoError(t, site.publish("v3", write("3")))
	_, err := site.withdraw("v3")
	require.NoError(t, err)
	live("v1")
}

func TestFirstReleaseWithdrawn(t *testing.T) {
	t.Parallel()
	site := Site(t.TempDir())
	require.NoError(t, site.publish("v1", write("1")))
	require.NoError(t, site.switchTo("v1"))
	back, err := site.withdraw("v1")
	require.NoError(t, err)
	require.Empty(t, back)
	require.NoFileExists(t, site.path(current))
}

func TestPublishFails(t *testing.T) {
	t.Parallel()
	site := Site(t.TempDir())
	require.NoError(t, site.publish("v1", write("1")))
	require.ErrorIs(t, site.publish("v1", func(string) error { return os.ErrClosed }), os.ErrClosed)
	content, err := os.ReadFile(site.path("releases", "v1", "version.txt"))
	require.NoError(t, err)
	require.Equal(t, "1", string(content))
	entries, err := os.ReadDir(site.path("releases"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"v1", "2026.11.20-rc_1", "7"} {
		require.NoError(t, checkVersion(good), good)
	}
	for _, bad := range []string{"", ".", "..", "../v1", "a/b", "-v", "v 1", "v*", "é", string(make([]byte, 41))} {
		require.Error(t, checkVersion(bad), bad)
	}
}

// served starts the web server of a site, until the test ends, and returns its address.
func served(t *testing.T, site Site) string {
	t.Helper()
	server := httptest.NewServer(site.server())
	t.Cleanup(server.Close)
	require.NoError(t, site.note(siteURL, server.URL))
	return server.URL
}

// All steps without the engine: build, test, deploy, verify, roll back.
func TestWork(t *testing.T) {
	t.Parallel()
	ctx, site := t.Context(), Site(t.TempDir())
	url := served(t, site)
	deploy := func(version, defect string) (Deployed, error) {
		change := Change{Site: string(site), Version: version, Defect: defect}
		release, err := Build(ctx, change)
		require.NoError(t, err)
		for _, args := range matrix {
			if _, err := Test(ctx, TestInput{Release: release, Args: args}); err != nil {
				return Deployed{}, err
			}
		}
		deployed, err := Deploy(ctx, DeployInput{Release: release, Approvals: []activity.Signal[activity.Decision]{
			{Payload: activity.Decision{By: "bob"}}, {Payload: activity.Decision{By: "alice"}},
		}})
		require.NoError(t, err)
		defer func() {
			_, err := Clean(ctx, change)
			require.NoError(t, err)
			require.NoDirExists(t, release.Source)
		}()
		return Verify(ctx, deployed)
	}

	_, err := deploy("v1", "")
	require.NoError(t, err)
	index, err := fetch(ctx, url+"/")
	require.NoError(t, err)
	require.Contains(t, index, "<p>Hello, Lima!</p>")
	require.Contains(t, index, "Release v1")

	_, err = deploy("v2", defectTest)
	require.ErrorContains(t, err, `Line(Lima) = "Hullo, Lima!"`)

	_, err = deploy("v3", defectVerify)
	require.ErrorContains(t, err, "says that it is v0-oops, not v3")
	back, err := Rollback(ctx, Change{Site: string(site), Version: "v3"})
	require.NoError(t, err)
	require.Equal(t, "v1", back)
	version, err := fetch(ctx, url+"/version.txt")
	require.NoError(t, err)
	require.Equal(t, "v1\n", version)
}
