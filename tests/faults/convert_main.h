/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives lmdbio-convert's main function another name, for a test that is a program of its own. */
#ifndef LMDBIO_TEST_CONVERT_MAIN_H
#define LMDBIO_TEST_CONVERT_MAIN_H

int convert_main(int argc, char **argv);

#endif
