# CPack runs it on the files of the Debian package before they are packed: what Debian asks for and `cmake --install` does
# not write.

set(share "${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}/share")
set(doc "${share}/doc/${CPACK_PACKAGE_NAME}")

file(RENAME "${doc}/LICENSE" "${doc}/copyright")
file(APPEND "${doc}/copyright" "
The digits in /usr/share/crema/data/mnist/mini are of MNIST, by Yann LeCun, Corinna Cortes and Christopher J.C.
Burges, which is commonly listed under CC BY-SA 3.0; /usr/share/crema/data/mnist/README.md says where they come from.
")

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(version "${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
file(WRITE "${doc}/changelog.Debian" "${CPACK_PACKAGE_NAME} (${version}) bookworm; urgency=medium

  * Crema ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

file(GLOB pages "${share}/man/man1/*.1")
execute_process(COMMAND gzip -9n "${doc}/changelog.Debian" ${pages} COMMAND_ERROR_IS_FATAL ANY)
