package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	modulePath = "github.com/flowfabric/flowfabric-go"
	// tagged is the version of the release that the test makes.
	tagged = "v0.1.0"
)

// treeFile is a file of a module, with another content for go.mod.
type treeFile struct {
	path, file string
	content    []byte
	info       fs.FileInfo
}

// Path implements modzip.File.
func (f treeFile) Path() string { return f.path }

// Lstat implements modzip.File.
func (f treeFile) Lstat() (fs.FileInfo, error) { return f.info, nil }

// Open implements modzip.File.
func (f treeFile) Open() (io.ReadCloser, error) {
	if f.content != nil {
		return io.NopCloser(bytes.NewReader(f.content)), nil
	}
	return os.Open(f.file)
}

// treeFiles returns the files of the module in a folder, without folders with a dot and the modules in it.
func treeFiles(t *testing.T, dir string, goMod []byte) []modzip.File {
	t.Helper()
	var files []modzip.File
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(dir, file)
		if err != nil || path == "." {
			return err
		}
		if entry.IsDir() {
			_, nested := os.Stat(filepath.Join(file, "go.mod"))
			if strings.HasPrefix(entry.Name(), ".") || nested == nil {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		f := treeFile{path: filepath.ToSlash(path), file: file, info: info}
		if path == "go.mod" {
			f.content = goMod
		}
		files = append(files, f)
		return nil
	})
	require.NoError(t, err)
	return files
}

// release puts a module of the tree into a proxy, as tools/release.sh tags it: with the other modules in its version.
func release(t *testing.T, proxy, folder string) {
	t.Helper()
	dir := filepath.Join("..", "..", folder)
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	goMod = regexp.MustCompile(`(`+regexp.QuoteMeta(modulePath)+`[a-z/]*) v0\.0\.0\b`).ReplaceAll(goMod, []byte("${1} "+tagged))
	version := module.Version{Path: strings.TrimSuffix(modulePath+"/"+filepath.ToSlash(folder), "/"), Version: tagged}
	at := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o644))
	}
	info, err := json.Marshal(map[string]any{"Version": tagged, "Time": time.Unix(1_800_000_000, 0).UTC()})
	require.NoError(t, err)
	write("list", []byte(tagged+"\n"))
	write(tagged+".info", info)
	write(tagged+".mod", goMod)
	var content bytes.Buffer
	require.NoError(t, modzip.Create(&content, version, treeFiles(t, dir, goMod)))
	_, err = zip.NewReader(bytes.NewReader(content.Bytes()), int64(content.Len()))
	require.NoError(t, err)
	write(tagged+".zip", content.Bytes())
}

// The command is installed from its tag by the go command alone: the modules of the tree come from a proxy that is made
// of it, with nothing in the cache of modules.
func TestInstallOfATag(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the whole command")
	}
	proxy, home := t.TempDir(), t.TempDir()
	for _, folder := range []string{"", "console", "server", "mcpserver", "cmd/flowfabric"} {
		release(t, proxy, folder)
	}
	env := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	others := "file://" + filepath.ToSlash(filepath.Join(env("GOMODCACHE"), "cache", "download"))
	cache := filepath.Join(home, "modules")
	install := exec.CommandContext(t.Context(), "go", "install", "-trimpath", modulePath+"/cmd/flowfabric@"+tagged)
	install.Dir = home
	install.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+filepath.Join(home, "bin"), "GOMODCACHE="+cache,
		"GOPROXY=file://"+filepath.ToSlash(proxy)+","+others+","+env("GOPROXY"), "GOSUMDB=off", "GOFLAGS=-modcacherw -buildvcs=false")
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	version, err := exec.CommandContext(t.Context(), filepath.Join(home, "bin", "flowfabric"), "--version").Output()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("flowfabric version %s\n", tagged), string(version))
	for _, folder := range []string{"@" + tagged, "/server@" + tagged, "/cmd/flowfabric@" + tagged} {
		require.DirExists(t, filepath.Join(cache, filepath.FromSlash(modulePath+folder)))
	}
}
