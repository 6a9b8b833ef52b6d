package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Site is the directory of a web site:
//
//	releases/VERSION   the pages of a release
//	current            link to the release that is served
//	previous           link to the one before
//	sources/VERSION/*  what a release under way is built from
//	site.url           where the server of the site listens
//
// Every change is one rename, so a reader, or a process that starts after a crash, finds a consistent state. Every
// method may be repeated: it performs only the remaining changes.
type Site string

const (
	current  = "current"
	previous = "previous"
)

func (s Site) path(names ...string) string {
	return filepath.Join(append([]string{string(s)}, names...)...)
}

// Live is the version that is served, "" before the first deployment.
func (s Site) Live() (string, error) { return s.version(current) }

// version returns the target of a link.
func (s Site) version(link string) (string, error) {
	target, err := os.Readlink(s.path(link))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("site %s: %w", s, err)
	}
	return filepath.Base(target), nil
}

// newSource makes a directory to build a version in. Attempts do not share it, since a lost one may still be at work.
func (s Site) newSource(version string) (string, error) {
	if err := os.MkdirAll(s.path("sources", version), 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(s.path("sources", version), "attempt-*")
}

func (s Site) removeSources(version string) error { return os.RemoveAll(s.path("sources", version)) }

// publish lets write fill a directory with the pages of a version and puts it among the releases.
func (s Site) publish(version string, write func(dir string) error) (err error) {
	if live, err := s.Live(); err != nil || live == version {
		return errors.Join(err, fmt.Errorf("release %s is live: a new one must have another version", version))
	}
	release := s.path("releases", version)
	if err := os.MkdirAll(s.path("releases"), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.path("releases"), "."+version+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := write(dir); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.RemoveAll(release)); err != nil {
		return err
	}
	return os.Rename(dir, release)
}

// switchTo makes a version live and remembers the one before.
func (s Site) switchTo(version string) error {
	live, err := s.Live()
	if err != nil || live == version {
		return err
	}
	if _, err := os.Stat(s.path("releases", version)); err != nil {
		return fmt.Errorf("release %s: %w", version, err)
	}
	if err := s.link(previous, live); err != nil {
		return err
	}
	return s.link(current, version)
}

// link lets a name lead to a version; "" removes it.
func (s Site) link(name, version string) error {
	if version == "" {
		if err := os.Remove(s.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	temp := s.path("." + name + "-" + version)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join("releases", version), temp); err != nil {
		return err
	}
	return os.Rename(temp, s.path(name))
}

// withdraw switches to the previous version, if this one is live, and removes it. It returns the live version.
func (s Site) withdraw(version string) (string, error) {
	live, err := s.Live()
	if err != nil {
		return "", err
	}
	if live == version {
		if live, err = s.version(previous); err != nil {
			return "", err
		}
		if err := s.link(current, live); err != nil {
			return "", err
		}
	}
	return live, os.RemoveAll(s.path("releases", version))
}

// checkVersion returns an error for a text that cannot name a release.
func checkVersion(version string) error {
	const rule = "must be 1 to 40 letters, digits, dots, dashes or underscores, and begin with a letter or digit"
	plain := strings.Trim(version, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
	if version == "" || len(version) > 40 || !plain || strings.ContainsAny(version[:1], "._-") {
		return fmt.Errorf("version %q: %s", version, rule)
	}
	return nil
}
