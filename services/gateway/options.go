package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
)

// truth reads a flag of a query as upstream does: there and neither "false" nor "0".
func truth(query url.Values, name string) bool {
	values, there := query[name]
	if !there {
		return false
	}
	return len(values) == 0 || strings.ToLower(values[0]) != "false" && values[0] != "0"
}

// optionsIn reads a query's options into T with its generated conversion. What cannot be
// read is a 400; what the options do not know is not looked at.
func optionsIn[T any](query url.Values, convert func(*url.Values, *T, conversion.Scope) error) (T, error) {
	var opts T
	if err := convert(&query, &opts, nil); err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

func listOptions(query url.Values) (metav1.ListOptions, error) {
	return optionsIn(query, metav1.Convert_url_Values_To_v1_ListOptions)
}

func getOptions(query url.Values) (metav1.GetOptions, error) {
	return optionsIn(query, metav1.Convert_url_Values_To_v1_GetOptions)
}

func deleteOptions(query url.Values) (metav1.DeleteOptions, error) {
	return optionsIn(query, metav1.Convert_url_Values_To_v1_DeleteOptions)
}

func createOptions(r *http.Request) (metav1.CreateOptions, error) {
	opts, err := optionsIn(r.URL.Query(), metav1.Convert_url_Values_To_v1_CreateOptions)
	opts.FieldManager = manager(opts.FieldManager, r.UserAgent())
	return opts, err
}

func updateOptions(r *http.Request) (metav1.UpdateOptions, error) {
	opts, err := optionsIn(r.URL.Query(), metav1.Convert_url_Values_To_v1_UpdateOptions)
	opts.FieldManager = manager(opts.FieldManager, r.UserAgent())
	return opts, err
}

// patchOptions leaves the manager of an apply to the applier: it has to be named.
func patchOptions(r *http.Request, apply applies) (metav1.PatchOptions, error) {
	opts, err := optionsIn(r.URL.Query(), metav1.Convert_url_Values_To_v1_PatchOptions)
	if !apply {
		opts.FieldManager = manager(opts.FieldManager, r.UserAgent())
	}
	return opts, err
}

// applies says that a patch is a server-side apply.
type applies bool

// manager is who a write is put down to: who it says, or else the program that sent it
// (upstream's managerOrUserAgent).
func manager(named, userAgent string) string {
	const longest = 128
	if named != "" {
		return named
	}
	program, _, _ := strings.Cut(userAgent, "/")
	var name strings.Builder
	for _, r := range program {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+len(string(r)) > longest {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}
