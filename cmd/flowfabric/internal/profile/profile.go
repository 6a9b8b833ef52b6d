// Package profile reads and writes the file with the profiles of the command: named sets of an engine or a server with
// how to reach it.
package profile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrInvalid matches errors about the file and names of profiles.
var ErrInvalid = errors.New("invalid profile")

// Profile has settings that a command uses unless a flag or the environment sets others. The zero value sets nothing.
type Profile struct {
	// URL is the URL of an engine or a server.
	URL string `yaml:"url,omitempty"`
	// TokenFile is the file with the token for a server; a leading ~/ is the home directory.
	TokenFile string `yaml:"token_file,omitempty"`
	Prefix    string `yaml:"prefix,omitempty"`
	Namespace string `yaml:"namespace,omitempty"`
	Actor     string `yaml:"actor,omitempty"`
	Output    string `yaml:"output,omitempty"`
}

// File is the content of the file.
type File struct {
	// Profile is the name of the profile that is used by default; empty for none.
	Profile  string             `yaml:"profile,omitempty"`
	Profiles map[string]Profile `yaml:"profiles,omitempty"`
}

// Path returns the path of the file: FLOWFABRIC_CONFIG, or flowfabric/config.yaml in XDG_CONFIG_HOME, which is
// ~/.config by default. It is empty without a home directory.
func Path(env func(string) string) string {
	if path := env("FLOWFABRIC_CONFIG"); path != "" {
		return path
	}
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the specification requires for relative ones
		home := env("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "flowfabric", "config.yaml")
}

// Read reads the file; one that does not exist is empty. An unknown field is an error.
func Read(path string) (*File, error) {
	f := &File{}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, path, err)
	}
	return f, nil
}

// Write writes the file for its owner alone, in one step.
func (f *File) Write(path string) error {
	if path == "" {
		return fmt.Errorf("%w: no home directory for the file was found: set FLOWFABRIC_CONFIG", ErrInvalid)
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	whole, err := os.CreateTemp(filepath.Dir(path), ".config-*")
	if err != nil {
		return err
	}
	_, err = whole.Write(text)
	if err = errors.Join(err, whole.Close()); err == nil {
		err = os.Rename(whole.Name(), path)
	}
	if err != nil {
		_ = os.Remove(whole.Name())
	}
	return err
}

// Named returns the profile with the name, or without a name the default profile, or the zero value without a default.
func (f *File) Named(name string) (Profile, error) {
	name = cmp.Or(name, f.Profile)
	if name == "" {
		return Profile{}, nil
	}
	p, ok := f.Profiles[name]
	if !ok {
		return Profile{}, fmt.Errorf("%w: profile %q does not exist; profiles: %s", ErrInvalid, name,
			cmp.Or(strings.Join(f.Names(), ", "), "none"))
	}
	return p, nil
}

// Names returns the names of the profiles in order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Profiles)) }

// Token reads the token of a profile; empty without a file.
func (p Profile) Token(env func(string) string) (string, error) { return ReadToken(p.TokenFile, env) }

// ReadToken reads a file with a token; empty for the empty path.
func ReadToken(path string, env func(string) string) (string, error) {
	if path == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(env("HOME"), rest)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
