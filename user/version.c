/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "version.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "elf_sym.h"
#include "util.h"

/* version.py has about ten lines; __version__ is among the first. */
#define VERSION_PY_BYTES 4096

static const char *parse_number(const char *text, int *ret)
{
	int value = 0;

	if (!isdigit((unsigned char)*text))
		return NULL;
	/* no version has more digits; more would overflow */
	for (int i = 0; isdigit((unsigned char)*text); i++, text++) {
		if (i == 4)
			return NULL;
		value = value * 10 + (*text - '0');
	}
	*ret = value;
	return text;
}

bool dlp_version_parse(const char *text, struct dlp_version *ret)
{
	struct dlp_version version = { 0 };
	const char *at = parse_number(text, &version.major);

	if (!at || *at++ != '.')
		return false;
	at = parse_number(at, &version.minor);
	if (!at)
		return false;
	if (*at == '.')
		(void)parse_number(at + 1, &version.micro);
	dlp_sanitise(version.text, sizeof(version.text), text, strlen(text));
	*ret = version;
	return true;
}

bool dlp_version_at_least(const struct dlp_version *version, int major, int minor)
{
	return version->major > major || (version->major == major && version->minor >= minor);
}

bool dlp_version_from_py(const char *text, struct dlp_version *ret)
{
	static const char name[] = "__version__";

	for (const char *line = text; line; line = strchr(line, '\n')) {
		char value[sizeof(ret->text)];
		const char *at, *end;
		size_t len;

		line += *line == '\n';
		/* "__version__ = '2.0'", and "__version__: str = ..." of some builds */
		if (strncmp(line, name, sizeof(name) - 1))
			continue;
		at = line + sizeof(name) - 1;
		at += strspn(at, " \t");
		if (*at != '=' && *at != ':')
			continue;
		at += strcspn(at, "'\"\n");
		if (*at != '\'' && *at != '"')
			continue;
		end = strchr(at + 1, *at);
		if (!end)
			continue;
		len = (size_t)(end - at - 1);
		len = len < sizeof(value) - 1 ? len : sizeof(value) - 1;
		memcpy(value, at + 1, len);
		value[len] = '\0';
		return dlp_version_parse(value, ret);
	}
	return false;
}

static bool from_symbol(const struct dlp_elf *elf, struct dlp_version *ret)
{
	struct dlp_elf_sym sym;
	char text[48];
	uint64_t value = 0;

	/* const unsigned long Py_Version = PY_VERSION_HEX; since 3.11 */
	if (dlp_elf_find(elf, DLP_ELF_OBJECT, DLP_ELF_EXACT, "Py_Version", &sym) ||
	    sym.size != sizeof(value) || dlp_elf_read_addr(elf, sym.addr, &value, sizeof(value)))
		return false;
	if (value >> 24 < 3 || value >> 24 > 9)
		return false;
	(void)snprintf(text, sizeof(text), "%u.%u.%u", (unsigned int)(value >> 24 & 0xff),
		       (unsigned int)(value >> 16 & 0xff), (unsigned int)(value >> 8 & 0xff));
	return dlp_version_parse(text, ret);
}

/* libpython3.11.so.1.0, python3.11, python3.13t */
static bool from_name(const char *base, struct dlp_version *ret)
{
	const char *at = strstr(base, "python");
	char text[16];
	size_t len;

	if (!at)
		return false;
	at += strlen("python");
	len = strspn(at, "0123456789");
	if (at[len] != '.')
		return false;
	len++;
	len += strspn(at + len, "0123456789");
	if (len >= sizeof(text))
		return false;
	memcpy(text, at, len);
	text[len] = '\0';
	return dlp_version_parse(text, ret);
}

/* _pickle.cpython-311-x86_64-linux-gnu.so; the digits behind the tag, NULL when it has none */
static const char *extension_tag(const char *path)
{
	static const char tag[] = ".cpython-3";
	const char *at = strstr(dlp_mapped_base(path), tag);

	return at ? at + sizeof(tag) - 1 : NULL;
}

static bool from_extension(const struct dlp_proc_maps *maps, struct dlp_version *ret)
{
	for (size_t i = 0; i < maps->cnt; i++) {
		const char *minor = extension_tag(maps->map[i].path);
		char text[16];
		size_t len;

		len = minor ? strspn(minor, "0123456789") : 0;
		if (!len || len > 3)
			continue;
		(void)snprintf(text, sizeof(text), "3.%.*s", (int)len, minor);
		return dlp_version_parse(text, ret);
	}
	return false;
}

void dlp_version_python(const struct dlp_process_view *view, const struct dlp_mapped *python,
			struct dlp_version *ret)
{
	if (python->elf && from_symbol(python->elf, ret))
		return;
	if (python->map && from_name(dlp_mapped_base(python->map->path), ret))
		return;
	(void)from_extension(view->maps, ret);
}

bool dlp_version_is_free_threaded(const struct dlp_proc_maps *maps)
{
	for (size_t i = 0; i < maps->cnt; i++) {
		const char *at = extension_tag(maps->map[i].path);
		size_t len = at ? strspn(at, "0123456789") : 0;

		if (len && at[len] == 't')
			return true;
	}
	return false;
}

static bool read_package(const struct dlp_process_view *view, const char *package, size_t len,
			 struct dlp_version *ret)
{
	char path[PATH_MAX], text[VERSION_PY_BYTES];
	size_t bytes;

	if (snprintf(path, sizeof(path), "%.*s/version.py", (int)len, package) >= (int)sizeof(path))
		return false;
	return !dlp_mapped_read_text(view, path, text, sizeof(text), &bytes) &&
	       dlp_version_from_py(text, ret);
}

/*
 * Any mapped file below a folder named torch will do: distributions keep libtorch_python.so
 * elsewhere, but the extension module torch/_C is always in the package. The innermost folder of
 * that name is the package (the outer one may be a user's).
 */
void dlp_version_torch(const struct dlp_process_view *view, struct dlp_version *ret, char *package,
		       size_t package_size)
{
	const char *last = NULL;
	size_t last_len = 0;

	package[0] = '\0';
	for (size_t i = 0; i < view->maps->cnt; i++) {
		const char *path = view->maps->map[i].path;
		const char *found = NULL;
		size_t len;

		for (const char *at = path; (at = strstr(at, "/torch/")); at++)
			found = at;
		if (!found)
			continue;
		len = (size_t)(found - path) + strlen("/torch");
		if (last && len == last_len && !strncmp(last, path, len))
			continue;
		last = path;
		last_len = len;
		if (!read_package(view, path, len, ret))
			continue;
		if (len < package_size) {
			memcpy(package, path, len);
			package[len] = '\0';
		}
		return;
	}
}
