package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
)

func (a *App) profileCommand() *cobra.Command {
	return a.group("profile", "Manage the profiles of the command", a.profileList(), a.profileSet(), a.profileUse(),
		a.profileDelete())
}

// namedProfile is a profile as it is printed: the password of its URL is not.
type namedProfile struct {
	Name      string `json:"name"`
	Default   bool   `json:"default,omitempty"`
	URL       string `json:"url"`
	Prefix    string `json:"prefix,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Actor     string `json:"actor,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
	Output    string `json:"output,omitempty"`
}

var profileView = output.View[namedProfile]{
	Name: func(p namedProfile) string { return p.Name },
	Columns: []output.Column[namedProfile]{
		{Name: "profile", Text: func(p namedProfile) string { return p.Name }},
		{Name: "default", Text: func(p namedProfile) string {
			if p.Default {
				return "yes"
			}
			return ""
		}},
		{Name: "url", Text: func(p namedProfile) string { return p.URL }},
		{Name: "prefix", Text: func(p namedProfile) string { return p.Prefix }},
		{Name: "namespace", Text: func(p namedProfile) string { return p.Namespace }},
		{Name: "actor", Text: func(p namedProfile) string { return p.Actor }},
		{Name: "token file", Text: func(p namedProfile) string { return p.TokenFile }},
		{Name: "output", Wide: true, Text: func(p namedProfile) string { return p.Output }},
	},
}

func (a *App) profileList() *cobra.Command {
	return a.standalone(spec{
		use: "list", short: "Show the profiles, without passwords", columns: profileView.ColumnNames(),
		do: func(r *request) error {
			file, err := profile.Read(profile.Path(a.Env))
			if err != nil {
				return err
			}
			var list []namedProfile
			for _, name := range file.Names() {
				p := file.Profiles[name]
				list = append(list, namedProfile{
					name, name == file.Profile, withoutPassword(p.URL), p.Prefix, p.Namespace, p.Actor, p.TokenFile,
					p.Output,
				})
			}
			return output.List(r.out, profileView, list)
		},
	})
}

// changeProfiles reads the file, changes it and writes it.
func (a *App) changeProfiles(do func(*profile.File) error) error {
	path := profile.Path(a.Env)
	file, err := profile.Read(path)
	if err != nil {
		return err
	}
	if err := do(file); err != nil {
		return err
	}
	return file.Write(path)
}

func (a *App) profileSet() *cobra.Command {
	c := a.standalone(spec{
		use: "set NAME", short: "Save --url and the other flags that are given as a profile",
		long: "Saves the flags --url, --prefix, --namespace, --actor, --token-file and --output as a profile, " +
			"and replaces a profile of that name as a whole. The first profile is the default one. " +
			"A URL with a password is stored as it is, in a file that its owner alone can read.",
		example: "  flowfabric profile set production --url https://flows.example.com --token-file ~/.flows-token",
		check: func([]string) error {
			if a.flags.url == "" {
				return fmt.Errorf("takes --url")
			}
			return nil
		},
		do: func(r *request) error {
			f := &a.flags
			err := a.changeProfiles(func(file *profile.File) error {
				if file.Profiles == nil {
					file.Profiles = map[string]profile.Profile{}
				}
				if len(file.Profiles) == 0 {
					file.Profile = r.args[0]
				}
				file.Profiles[r.args[0]] = profile.Profile{
					URL: f.url, TokenFile: f.tokenFile, Prefix: f.prefix, Namespace: f.namespace, Actor: f.actor,
					Output: f.output,
				}
				return nil
			})
			return r.done("saved", r.args[0], err)
		},
	})
	return c
}

func (a *App) profileUse() *cobra.Command {
	c := a.standalone(spec{
		use: "use PROFILE", short: "Make a profile the default one",
		do: func(r *request) error {
			err := a.changeProfiles(func(file *profile.File) error {
				if _, err := file.Named(r.args[0]); err != nil {
					return err
				}
				file.Profile = r.args[0]
				return nil
			})
			return r.done("default", r.args[0], err)
		},
	})
	c.ValidArgsFunction = a.completeProfiles
	return c
}

func (a *App) profileDelete() *cobra.Command {
	c := a.standalone(spec{
		use: "delete PROFILE", short: "Delete a profile",
		do: func(r *request) error {
			err := a.changeProfiles(func(file *profile.File) error {
				if _, err := file.Named(r.args[0]); err != nil {
					return err
				}
				delete(file.Profiles, r.args[0])
				if file.Profile == r.args[0] {
					file.Profile = ""
				}
				return nil
			})
			return r.done("deleted", r.args[0], err)
		},
	})
	c.ValidArgsFunction = a.completeProfiles
	return c
}
